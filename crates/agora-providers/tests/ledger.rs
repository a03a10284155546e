//! The ledger in a file keeps its contract, is never half written, and says what is damaged.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agora_core::provider::ledger::{
    CancelWish, Checked, Filter, Ledger, LedgerError, OpenFilter, Paper, ThreadView,
};
use agora_core::provider::{Outage, Unavailable};
use agora_core::time::Clock;
use agora_core::{Namespace, ThreadId};
use agora_providers::Home;
use agora_providers::ledger::SqliteLedger;
use agora_testkit::clock::SetClock;
use agora_testkit::ledger::MemoryLedger;
use agora_testkit::ledger::play::{Choice, agree, play};
use agora_testkit::ledger::sample::{accept, append, asked, ended, finished, job, started};
use agora_testkit::{contract, part};
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn clock() -> Arc<SetClock> {
    Arc::new(SetClock::at("2026-11-15T12:00:00Z"))
}

fn open(dir: &Path) -> Result<SqliteLedger, LedgerError> {
    SqliteLedger::open(Home::new(dir), clock())
}

fn id(text: &str) -> ThreadId {
    text.parse().unwrap()
}

/// Opens the file as somebody would who looks at it without us.
fn file(dir: &Path) -> Connection {
    Connection::open(dir.join("ledger.sqlite")).unwrap()
}

/// Returns the rows of every table that is only a cache.
fn cache(dir: &Path) -> BTreeMap<&'static str, Vec<Vec<Value>>> {
    let connection = file(dir);
    let rows = |table: &str| {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
        rows.unwrap().collect::<Result<Vec<Vec<Value>>, _>>().unwrap()
    };
    ["threads", "dispatches", "labels"].into_iter().map(|table| (table, rows(table))).collect()
}

#[test]
fn the_ledger_in_a_file_meets_the_contract() {
    let dir = TempDir::new().unwrap();
    let count = AtomicU32::new(0);
    let make = |clock: Arc<dyn Clock>| -> Box<dyn Ledger> {
        let number = count.fetch_add(1, Ordering::Relaxed);
        Box::new(SqliteLedger::open(Home::new(dir.path().join(number.to_string())), clock).unwrap())
    };
    block(contract::ledger(&make));
    let several = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    several.block_on(contract::ledger(&make));
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    prop::collection::vec(any::<Choice>(), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if part::full() { 200 } else { 16 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn it_answers_as_the_ledger_in_memory_does_and_its_cache_can_be_made_again(choices in choices()) {
        let dir = TempDir::new().unwrap();
        let clock = clock();
        let model = MemoryLedger::new(Arc::clone(&clock) as _);
        let ledger = SqliteLedger::open(Home::new(dir.path()), Arc::clone(&clock) as _).unwrap();
        block(async {
            play(&[&model, &ledger], &clock, &choices).await;
            let again = SqliteLedger::open(Home::new(dir.path()), Arc::clone(&clock) as _).unwrap();
            agree(&[&model, &again], &clock).await;
            // Makes the file, if nothing has.
            ledger.told(0, None).await.unwrap();
            let kept = cache(dir.path());
            file(dir.path())
                .execute_batch("DELETE FROM labels; DELETE FROM dispatches; DELETE FROM threads")
                .unwrap();
            ledger.rebuild().await.unwrap();
            assert_eq!(cache(dir.path()), kept);
        });
    }
}

#[test]
fn nothing_is_made_before_something_is_recorded_and_then_it_is_for_its_owner_only() {
    let dir = TempDir::new().unwrap();
    let home = dir.path().join("home");
    let ledger = open(&home).unwrap();
    let other = open(&home).unwrap();
    assert_eq!(block(ledger.carried()).unwrap(), []);
    assert_eq!(block(ledger.thread(&id("t_1"))).unwrap(), None);
    assert!(!home.exists());
    block(ledger.append(accept(0, job("t_1", "d_1")))).unwrap();
    assert_eq!(block(other.carried()).unwrap(), [id("t_1")], "one that was opened before sees it");
    for name in ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "ledger.lock", "bell"] {
        let mode = fs::metadata(home.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
}

#[test]
fn those_who_wait_share_a_transaction_and_a_refused_one_is_undone_alone() {
    let dir = TempDir::new().unwrap();
    let ledger = Arc::new(open(dir.path()).unwrap());
    let several = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    several.block_on(async {
        ledger.append(accept(0, job("t_x", "d_x"))).await.unwrap();
        let before = ledger.commits();
        let all: Vec<_> = (0..200)
            .map(|number| {
                let ledger = Arc::clone(&ledger);
                // Every tenth is refused after something of it was written.
                let dispatch = if number % 10 == 0 { "d_x".to_owned() } else { format!("d_{number}") };
                let append = accept(0, job(&format!("t_{number}"), &dispatch));
                tokio::spawn(async move { (number, ledger.append(append).await) })
            })
            .collect();
        for one in all {
            match one.await.unwrap() {
                (number, Ok(entries)) => assert!(number % 10 > 0 && entries[0].seq == 1),
                (number, Err(LedgerError::DispatchTaken(_))) => assert_eq!(number % 10, 0),
                (number, Err(other)) => panic!("{number}: {other:?}"),
            }
        }
        let commits = ledger.commits() - before;
        assert!(commits < 60, "{commits} commits for 200 appends");
        let all = ledger.list(&Filter { most: 500, ..Filter::default() }).await.unwrap();
        assert_eq!(all.len(), 181);
        assert_eq!(ledger.thread(&id("t_10")).await.unwrap(), None);
    });
}

fn outage(error: LedgerError) -> Outage {
    match error {
        LedgerError::Unavailable(Unavailable { outage, .. }) => outage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_a_full_disk_nothing_of_an_append_is_recorded_and_later_all_goes_on() {
    let dir = TempDir::new().unwrap();
    let ledger = open(dir.path()).unwrap();
    block(async {
        ledger.append(accept(0, job("t_1", "d_1"))).await.unwrap();
        let before = (cache(dir.path()), ledger.thread(&id("t_1")).await.unwrap());
        ledger.limit_pages(1).await.unwrap();
        let text = "x".repeat(1_000_000);
        let large = || {
            let mut append = append("t_1", 1, vec![started("d_1")]);
            let (dispatch_id, text) = ("d_1".parse().unwrap(), text.clone());
            append.papers.push(Paper::Report { dispatch_id, text });
            append
        };
        // Alone, and together with others: whoever needs no room is not held up by whoever has none.
        assert_eq!(outage(ledger.append(large()).await.unwrap_err()), Outage::Full);
        let first = id("t_1");
        let (wished, full) = tokio::join!(ledger.wish_cancel(&first, None), ledger.append(large()));
        assert!(wished.unwrap());
        assert_eq!(outage(full.unwrap_err()), Outage::Full);
        assert_eq!(cache(dir.path()), before.0);
        assert_eq!(ledger.read(&first, 0, 9).await.unwrap().len(), 1);
        ledger.limit_pages(1_000_000).await.unwrap();
        ledger.append(large()).await.expect("there is room again");
        ledger.check_thread(&first).await.unwrap();
    });
}

#[test]
fn what_was_altered_behind_its_back_is_found_and_named() {
    let dir = TempDir::new().unwrap();
    let ledger = open(dir.path()).unwrap();
    block(async {
        ledger.append(accept(0, job("t_1", "d_1"))).await.unwrap();
        ledger.append(append("t_1", 1, vec![started("d_1"), finished("d_1"), ended()])).await.unwrap();
        ledger.append(accept(0, job("t_2", "d_2"))).await.unwrap();
        ledger.check_thread(&id("t_1")).await.unwrap();
        ledger.check_thread(&id("t_9")).await.expect("there is nothing to find");
    });
    let damage = |sql: &str| {
        file(dir.path())
            .execute_batch(&format!("CREATE TABLE kept AS SELECT * FROM entries; {sql}"))
            .unwrap();
        let found = match block(ledger.check_thread(&id("t_1"))) {
            Err(LedgerError::ThreadDamaged { thread_id, what }) if thread_id == id("t_1") => what,
            other => panic!("{sql}: {other:?}"),
        };
        block(ledger.check_thread(&id("t_2"))).expect("another thread is whole");
        file(dir.path())
            .execute_batch("DELETE FROM entries; INSERT INTO entries SELECT * FROM kept; DROP TABLE kept")
            .unwrap();
        block(ledger.check_thread(&id("t_1"))).unwrap();
        found
    };
    let body = "CAST(replace(CAST(body AS TEXT), '\"durationMs\":5', '\"durationMs\":6') AS BLOB)";
    let altered = damage(&format!("UPDATE entries SET body = {body} WHERE thread = 't_1' AND seq = 3"));
    assert_eq!(altered, "its chain of hashes breaks at entry 3");
    let gone = damage("DELETE FROM entries WHERE thread = 't_1' AND seq = 2");
    assert_eq!(gone, "entry 2 is missing");
    let cut = damage("DELETE FROM entries WHERE thread = 't_1' AND seq = 4");
    assert_eq!(cut, "entry 4 is missing");
}

/// Makes an entry one that nobody can read.
fn spoil(dir: &Path, thread: &str, seq: u64) {
    let sql = "UPDATE entries SET body = CAST('{\"version\":1,' AS BLOB) WHERE thread = ?1 AND seq = ?2";
    assert_eq!(file(dir).execute(sql, (thread, i64::try_from(seq).unwrap())).unwrap(), 1);
}

#[test]
fn a_thread_that_cannot_be_read_keeps_nobody_from_the_others_and_can_be_given_up() {
    let dir = TempDir::new().unwrap();
    let ledger = open(dir.path()).unwrap();
    block(async {
        for (thread, dispatch, question) in [("t_1", "d_1", "q_1"), ("t_2", "d_2", "q_2")] {
            ledger.append(accept(0, job(thread, dispatch))).await.unwrap();
            ledger.append(append(thread, 1, vec![started(dispatch)])).await.unwrap();
            ledger.append(append(thread, 2, asked(dispatch, question))).await.unwrap();
        }
        assert_eq!(ledger.discard(&id("t_1")).await.unwrap(), None, "it can be read");
        spoil(dir.path(), "t_1", 3);
        let is_named = |error: LedgerError| match error {
            LedgerError::ThreadDamaged { thread_id, what } => {
                assert_eq!((thread_id, what.starts_with("entry 3: ")), (id("t_1"), true), "{what}");
            }
            other => panic!("{other:?}"),
        };
        is_named(ledger.thread(&id("t_1")).await.unwrap_err());
        is_named(ledger.dispatch(&"d_1".parse().unwrap()).await.unwrap_err());
        is_named(ledger.append(append("t_1", 3, vec![ended()])).await.unwrap_err());

        let all = OpenFilter { most: 9, ..OpenFilter::default() };
        let open: Vec<_> = ledger
            .questions(&all)
            .await
            .unwrap()
            .into_iter()
            .map(|open| open.question_id.to_string())
            .collect();
        assert_eq!(open, ["q_2"]);
        assert_eq!(ledger.list(&Filter { most: 9, ..Filter::default() }).await.unwrap().len(), 2);
        let entries = ledger.read_all(&Namespace::default(), 0, 99).await.unwrap();
        assert_eq!(entries.len(), 7, "all but the one");
        let checked = ledger.check(0).await.unwrap();
        assert_eq!((checked.threads, checked.damaged.len()), (2, 1), "what is open is looked at");
        assert_eq!(checked.damaged[0].0, id("t_1"));
        // A newer agora makes the cache anew with its first write: that must not fail for one thread.
        ledger.rebuild().await.unwrap();
        assert!(ledger.thread(&id("t_2")).await.unwrap().is_some());
    });
    let dir = TempDir::new().unwrap();
    let ledger = with_damage(dir.path());
    block(async {
        let jobs = ledger.discard(&id("t_1")).await.unwrap().expect("it cannot be read");
        assert_eq!(jobs.iter().map(|job| job.dispatch_id.as_str()).collect::<Vec<_>>(), ["d_1"]);
        assert_eq!(ledger.thread(&id("t_1")).await.unwrap(), None);
        assert_eq!(ledger.check(9).await.unwrap(), Checked { threads: 0, damaged: Vec::new() });
        let kept = fs::read_to_string(dir.path().join("damaged/t_1.jsonl")).unwrap();
        assert_eq!(kept.lines().count(), 3, "its entries, and its job: {kept}");
    });
}

/// A ledger with one thread, the second entry of which cannot be read.
fn with_damage(dir: &Path) -> SqliteLedger {
    let ledger = open(dir).unwrap();
    block(ledger.append(accept(0, job("t_1", "d_1")))).unwrap();
    block(ledger.append(append("t_1", 1, vec![started("d_1")]))).unwrap();
    spoil(dir, "t_1", 2);
    ledger
}

/// A newer agora may have recorded kinds that this one does not know: they are skipped, counted, and in the chain.
#[test]
fn an_entry_of_an_unknown_kind_is_skipped_and_the_thread_goes_on() {
    let dir = TempDir::new().unwrap();
    let ledger = open(dir.path()).unwrap();
    block(ledger.append(accept(0, job("t_1", "d_1")))).unwrap();
    let body = r#"{"version":1,"seq":2,"at":"2026-11-15T12:00:00.000Z","namespace":"default","threadId":"t_1","kind":"dispatch.dreamt","data":{}}"#;
    let connection = file(dir.path());
    let tip: Vec<u8> = connection.query_row("SELECT hash FROM entries", [], |row| row.get(0)).unwrap();
    let hash = Sha256::new().chain_update(tip).chain_update(body).finalize().to_vec();
    connection
        .execute(
            "INSERT INTO entries (thread, seq, namespace, body, hash) VALUES ('t_1', 2, 'default', ?1, ?2)",
            rusqlite::params![body.as_bytes(), hash],
        )
        .unwrap();
    block(async {
        assert_eq!(ledger.thread(&id("t_1")).await.unwrap().unwrap().seen, 2);
        ledger.append(append("t_1", 2, vec![started("d_1")])).await.unwrap();
        let seen: Vec<_> =
            ledger.read(&id("t_1"), 0, 2).await.unwrap().iter().map(|entry| entry.seq).collect();
        assert_eq!(seen, [1, 3], "what is skipped takes up no place in a page");
        ledger.check_thread(&id("t_1")).await.unwrap();
        let kept = cache(dir.path());
        ledger.rebuild().await.unwrap();
        assert_eq!(cache(dir.path()), kept);
    });
}

#[test]
fn a_file_that_is_no_ledger_or_a_newer_one_is_refused() {
    let dir = TempDir::new().unwrap();
    block(open(dir.path()).unwrap().append(accept(0, job("t_1", "d_1")))).unwrap();
    let before_it_was = open(&dir.path().join("new")).unwrap();
    file(dir.path()).pragma_update(None, "user_version", 999).unwrap();
    let newer = open(dir.path()).unwrap_err();
    assert!(newer.to_string().starts_with("cannot use `"), "{newer}");
    let source = std::error::Error::source(&newer).unwrap().to_string();
    assert_eq!(source, "it was made by a newer agora: its schema is 999, this agora knows 3");

    fs::create_dir_all(dir.path().join("new")).unwrap();
    fs::write(dir.path().join("new/ledger.sqlite"), "This is no ledger, and never was one.".repeat(40))
        .unwrap();
    assert!(matches!(open(&dir.path().join("new")).unwrap_err(), LedgerError::Damaged(_)));
    assert!(matches!(block(before_it_was.carried()).unwrap_err(), LedgerError::Damaged(_)));
    let refused = block(before_it_was.append(accept(0, job("t_1", "d_1")))).unwrap_err();
    assert!(matches!(refused, LedgerError::Damaged(_)), "{refused:?}");
}

#[test]
fn a_home_that_cannot_be_written_is_said_to_be_so() {
    let dir = TempDir::new().unwrap();
    let ledger = open(&dir.path().join("file/home")).unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(outage(block(ledger.append(accept(0, job("t_1", "d_1")))).unwrap_err()), Outage::Failed);
    assert!(ledger.watch().is_err());
    fs::remove_file(dir.path().join("file")).unwrap();
    block(ledger.append(accept(0, job("t_1", "d_1")))).expect("as soon as it can be, it is");
}

/// A ledger of each version there was, as `sqlite3 .dump` wrote it.
const DUMPS: &[&str] = &[include_str!("ledger/v1.sql"), include_str!("ledger/v2.sql")];

#[test]
fn ledgers_of_earlier_versions_open_and_go_on() {
    for dump in DUMPS {
        let dir = TempDir::new().unwrap();
        Home::new(dir.path()).prepare().unwrap();
        file(dir.path()).execute_batch(dump).unwrap();
        let ledger = open(dir.path()).unwrap();
        block(async {
            for thread in ["t_1", "t_2"] {
                ledger.check_thread(&id(thread)).await.unwrap();
            }
            let view = ledger.thread(&id("t_1")).await.unwrap().unwrap();
            assert!(view.thread.has_ended() && view.seen == 4);
            let ThreadView { seen, cancel_wish, .. } = ledger.thread(&id("t_2")).await.unwrap().unwrap();
            let nobody = CancelWish { at: agora_core::Timestamp::from_millis(1_794_744_060_000), by: None };
            assert_eq!(cancel_wish, Some(nobody), "whose wish it was, nobody noted");
            ledger.append(append("t_2", seen, vec![finished("d_2")])).await.unwrap();
            let kept = cache(dir.path());
            ledger.rebuild().await.unwrap();
            assert_eq!(cache(dir.path()), kept);
            assert_eq!(ledger.list(&Filter { most: 9, ..Filter::default() }).await.unwrap().len(), 2);
        });
    }
}
