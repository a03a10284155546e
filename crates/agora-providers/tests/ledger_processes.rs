//! Several processes share a ledger, and some of them are killed.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]
#![expect(
    clippy::disallowed_methods,
    reason = "the test starts itself again, and tells its children by a variable"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use agora_core::DispatchId;
use agora_core::provider::ledger::{Claim, ClaimMark, Filter, Ledger, StateWord};
use agora_core::time::Clock;
use agora_providers::ledger::SqliteLedger;
use agora_providers::{Home, SystemClock};
use agora_testkit::ledger::sample::{accept, append, finished, job, started};
use agora_testkit::part;
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

const ROLE: &str = "AGORA_TEST_LEDGER_ROLE";
const HOME: &str = "AGORA_TEST_LEDGER_HOME";
/// How many may run at once at the target that the children fight for.
const ROOM: u32 = 2;

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn open(home: &Path) -> SqliteLedger {
    SqliteLedger::open(Home::new(home), Arc::new(SystemClock)).unwrap()
}

fn start(role: &str, home: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(ROLE, role)
        .env(HOME, home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what a child says, until it ends, without what the test runner says.
fn lines(from: ChildStdout) -> impl Iterator<Item = String> {
    let said = BufReader::new(from).lines().map_while(Result::ok);
    said.filter_map(|line| line.split_once("said: ").map(|(_, said)| said.to_owned()))
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    // In one write, so that a kill does not cut it. The parent may be gone.
    let _ = out.write_all(format!("said: {what}\n").as_bytes()).and_then(|()| out.flush());
}

/// What the test does when it is started by itself. By anybody else: nothing.
#[test]
fn child() {
    let (Ok(role), Some(home)) = (std::env::var(ROLE), std::env::var_os(HOME)) else { return };
    let ledger = open(Path::new(&home));
    let run = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    match role.as_str() {
        "record" => run.block_on(record(Arc::new(ledger))),
        "fight" => run.block_on(fight(&ledger)),
        "hold" => run.block_on(async {
            ledger.append(accept(0, job("t_held", "d_held"))).await.unwrap();
            say("recorded");
            std::future::pending::<()>().await;
        }),
        other => panic!("no such role: {other}"),
    }
}

/// Records without end, four threads at a time, and says what was acknowledged.
async fn record(ledger: Arc<SqliteLedger>) {
    let four = (0..4).map(|lane| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            for number in 0.. {
                let name = format!("{}-{lane}-{number}", std::process::id());
                let (thread, dispatch) = (format!("t_{name}"), format!("d_{name}"));
                ledger.append(accept(0, job(&thread, &dispatch))).await.unwrap();
                say(&format!("{thread} 1"));
                ledger.claim(&dispatch.parse().unwrap(), mark(), 1000).await.unwrap();
                let what = vec![started(&dispatch), finished(&dispatch)];
                ledger.append(append(&thread, 1, what)).await.unwrap();
                say(&format!("{thread} 3"));
            }
        })
    });
    for lane in four.collect::<Vec<_>>() {
        lane.await.unwrap();
    }
}

fn mark() -> ClaimMark {
    ClaimMark { at: SystemClock.now(), boot: std::process::id().to_string() }
}

/// Starts and ends dispatches as long as any waits, and says which were granted.
async fn fight(ledger: &SqliteLedger) {
    let mut watch = ledger.watch().unwrap();
    let target = "local".parse().unwrap();
    loop {
        let live = live(ledger).await;
        if live.is_empty() {
            return;
        }
        let mut granted = false;
        for dispatch in ledger.head(&target, ROOM).await.unwrap() {
            match ledger.claim(&dispatch, mark(), ROOM).await.unwrap() {
                Claim::Granted => granted = true,
                Claim::Earlier(_) | Claim::Waits { .. } | Claim::Over => continue,
            }
            say(&format!("granted {dispatch}"));
            let thread = dispatch.as_str().replacen('d', "t", 1);
            ledger.append(append(&thread, 1, vec![started(dispatch.as_str())])).await.unwrap();
            self::live(ledger).await;
            ledger.append(append(&thread, 2, vec![finished(dispatch.as_str())])).await.unwrap();
        }
        if !granted {
            watch.next().await.unwrap();
        }
    }
}

/// Returns what is live, and fails if more than there is room for are claimed.
async fn live(ledger: &SqliteLedger) -> Vec<DispatchId> {
    let states = Some(vec![StateWord::Accepted, StateWord::Running]);
    let rows = ledger.list(&Filter { states, most: 1000, ..Filter::default() }).await.unwrap();
    let claimed = rows.iter().filter(|row| row.claimed).count();
    assert!(claimed <= ROOM as usize, "{claimed} are claimed");
    rows.into_iter().map(|row| row.dispatch_id).collect()
}

/// Returns the rows of every table that is only a cache.
fn cache(home: &Path) -> BTreeMap<&'static str, Vec<Vec<Value>>> {
    let connection = Connection::open(home.join("ledger.sqlite")).unwrap();
    let rows = |table: &str| {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
        rows.unwrap().collect::<Result<Vec<Vec<Value>>, _>>().unwrap()
    };
    ["threads", "dispatches", "labels"].into_iter().map(|table| (table, rows(table))).collect()
}

#[test]
fn whatever_was_acknowledged_is_there_after_a_kill_at_any_moment() {
    // Everything is looked at after every kill, so each ledger takes twenty.
    for _ in 0..if part::full() { 10 } else { 1 } {
        kill_twenty_times();
    }
}

fn kill_twenty_times() {
    let dir = TempDir::new().unwrap();
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..20 {
        let mut child = start("record", dir.path());
        let out = child.stdout.take().unwrap();
        let heard = thread::spawn(move || lines(out).collect::<Vec<_>>());
        let mut random = [0];
        getrandom::fill(&mut random).unwrap();
        // From before it has opened the ledger until it has recorded some dozens.
        thread::sleep(Duration::from_micros(u64::from(random[0]) * 500));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in heard.join().unwrap() {
            let (thread, seq) = line.split_once(' ').unwrap();
            acknowledged.insert(thread.to_owned(), seq.parse().unwrap());
        }
        let ledger = open(dir.path());
        block(async {
            for (thread, seq) in &acknowledged {
                let there = ledger.read(&thread.parse().unwrap(), 0, 9).await.unwrap().len() as u64;
                assert!(there >= *seq, "round {round}: {there} entries of {thread}, acknowledged {seq}");
            }
            for row in ledger.list(&Filter { most: 100_000, ..Filter::default() }).await.unwrap() {
                ledger.check_thread(&row.thread_id).await.unwrap();
            }
            ledger.append(accept(0, job(&format!("t_{round}"), &format!("d_{round}")))).await.unwrap();
            let kept = cache(dir.path());
            ledger.rebuild().await.unwrap();
            assert_eq!(cache(dir.path()), kept, "round {round}");
        });
    }
    assert!(acknowledged.len() > 20, "the kills came too early: {} acknowledged", acknowledged.len());
}

#[test]
fn four_processes_never_run_more_than_there_is_room_for_and_each_dispatch_once() {
    let dir = TempDir::new().unwrap();
    let ledger = Arc::new(open(dir.path()));
    let count = if part::full() { 400 } else { 60 };
    let several = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    several.block_on(async {
        let all: Vec<_> = (0..count)
            .map(|number| {
                let ledger = Arc::clone(&ledger);
                let append = accept(0, job(&format!("t_{number}"), &format!("d_{number}")));
                tokio::spawn(async move { ledger.append(append).await.unwrap() })
            })
            .collect();
        for one in all {
            one.await.unwrap();
        }
    });
    let mut children: Vec<_> = (0..4).map(|_| start("fight", dir.path())).collect();
    let heard: Vec<_> = children
        .iter_mut()
        .map(|child| {
            let out = child.stdout.take().unwrap();
            thread::spawn(move || lines(out).collect::<Vec<_>>())
        })
        .collect();
    let mut granted: Vec<String> = heard.into_iter().flat_map(|heard| heard.join().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(granted.len(), count, "each was granted");
    granted.sort();
    granted.dedup();
    assert_eq!(granted.len(), count, "and once");
    assert!(block(live(&ledger)).is_empty());
}

#[test]
fn whoever_listens_hears_that_a_process_that_recorded_was_killed() {
    let dir = TempDir::new().unwrap();
    let mut child = start("hold", dir.path());
    let mut said = lines(child.stdout.take().unwrap());
    assert_eq!(said.next().unwrap(), "recorded");
    let ledger = open(dir.path());
    let mut watch = ledger.watch().unwrap();
    // It rang before it said so: only its death is left to be heard.
    child.kill().unwrap();
    child.wait().unwrap();
    block(watch.next()).unwrap();
    assert_eq!(block(ledger.carried()).unwrap().len(), 1, "what it recorded is there");
}
