//! The pause: how long an answer takes, and the worker that goes on with it, where many questions are open.
//!
//! `AGORA_BENCH_QUESTIONS=1000000` is the size that one node shall hold; ten thousand otherwise.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Duration,
};

use agora_core::{
    DispatchId, QuestionId, ThreadId, entry::Happening, event::Event, provider::ledger::OpenFilter,
};
use agora_engine::{Agora, Answerer, Dispatch, Given, Settings, read_subagent};
use agora_testkit::ledger::fill;
use tokio::runtime::Runtime;

use super::{Figure, Subject, dispatch::memory, rounds, startup::SPAWN};
use crate::{console, environment, failure::Failure, stopwatch::Stopwatch};

/// How many questions are open by default.
const QUESTIONS: u64 = 10_000;
/// How many are answered.
const ANSWERS: u64 = 1_000;
/// How many are filled in between two lines about it.
const STRETCH: u64 = 50_000;
/// What the command shows.
const PAGE: usize = 50;
/// What one takes in the ledger, twice: in the file, and on its way there.
const QUESTION_BYTES: u64 = 8 * 1024;
/// The floor of an answer: what is durable waits for the disk once.
const FSYNC: &str = "write 4 KiB and fsync";

const SUBAGENT: &str = r#"runtime: command
command: ["/bin/sh", "-c", "[ -e .agora/resume.json ] || echo '{\"question\": \"Which?\", \"options\": [\"a\", \"b\"]}' > .agora/needs_input.json"]
"#;

/// Answers, pages and a restart, with many questions open.
pub(super) fn answers(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let count =
        environment::bench_questions().unwrap_or(if subject.quick { QUESTIONS / 10 } else { QUESTIONS });
    let asked = if subject.quick { ANSWERS / 10 } else { ANSWERS };
    subject.needs(count * QUESTION_BYTES, &format!("a ledger of {count} questions"))?;
    let home = subject.directory("pause-home")?;
    let figures = measure(subject, &home, count, asked);
    Subject::clear(&home);
    figures
}

fn measure(subject: &Subject, home: &Path, count: u64, asked: u64) -> Result<Vec<Figure>, Failure> {
    let runtime = Runtime::new().map_err(broken)?;
    let agora = open(subject, home);
    let stopwatch = Stopwatch::start();
    runtime.block_on(fill(&agora, home, count))?;
    console::progress(&format!(
        "{count} questions are open after {:.0} s",
        stopwatch.elapsed().as_secs_f64()
    ));
    fs::write("/proc/self/clear_refs", "5").map_err(broken)?;
    let idle = memory();
    let (accepted, started) = runtime.block_on(answer_many(&agora, count, asked))?;
    let floor = fsyncs(&home.join("fsync"), asked)?;
    let mut figures = vec![
        Figure::time(
            format!("answer accepted durably, {count} open, p50 of {asked}"),
            accepted.at(50),
            FSYNC,
            floor.at(50),
        ),
        Figure::time(
            format!("answer accepted durably, {count} open, p99 of {asked}"),
            accepted.at(99),
            FSYNC,
            floor.at(99),
        )
        .wish("≤ 10 ms"),
        Figure::time(
            "from there to the next worker's `dispatch.started`, p50",
            started.at(50),
            FSYNC,
            floor.at(50),
        ),
        Figure::time(
            "from there to the next worker's `dispatch.started`, p99",
            started.at(99),
            FSYNC,
            floor.at(99),
        )
        .wish("≤ 25 ms"),
        Figure::memory_above("the engine that answered: peak memory above idle", memory(), "idle", idle),
    ];
    figures.extend(pages(subject, &runtime, &agora, home, count)?);
    drop(agora);
    figures.extend(restart(subject, &runtime, home)?);
    let ledger = home.join("agora/ledger.sqlite");
    let size = fs::metadata(&ledger).map_err(|source| Failure::file("look at", &ledger, &source))?.len();
    figures.push(Figure::bytes(format!("the ledger with {count} open questions"), size));
    Ok(figures)
}

fn open(subject: &Subject, home: &Path) -> Agora {
    Agora::open(home.join("agora")).with_settings(Settings::with_worker(&subject.agora))
}

/// Lets one agent really ask, and records as many threads like its own.
async fn fill(agora: &Agora, home: &Path, count: u64) -> Result<(), Failure> {
    let definition = home.join("asker.yaml");
    fs::write(&definition, SUBAGENT).map_err(|source| Failure::file("write", &definition, &source))?;
    let raw = read_subagent(&definition).map_err(broken)?;
    agora.register_subagent(&"asker".parse().map_err(broken)?, raw, &[]).await.map_err(broken)?;
    let first = agora.dispatch(Dispatch::to("asker")).await.map_err(broken)?;
    let result = first.wait().await.map_err(broken)?;
    if result.state != "needs_input" {
        return Err(broken(format!("the agent did not ask: {:?}", result.failure)));
    }
    let ledger = agora.engine().map_err(broken)?.world().ledger.clone();
    let papers = ledger.dispatch(first.dispatch_id()).await.map_err(broken)?;
    let like = papers.ok_or_else(|| broken("its papers are gone"))?.job;
    let (mut filled, stopwatch) = (0, Stopwatch::start());
    while filled < count {
        let next = (filled + STRETCH).min(count);
        fill::paused(&ledger, &like, filled..next).await;
        filled = next;
        let rate = filled as f64 / stopwatch.elapsed().as_secs_f64();
        let left = Duration::from_secs_f64((count - filled) as f64 / rate);
        console::progress(&format!(
            "{filled} questions are open, {rate:.0} a second; {} left",
            console::seconds(left)
        ));
    }
    Ok(())
}

/// Times, from the shortest to the longest.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the time that so many of a hundred stay within.
    fn at(&self, percent: usize) -> Duration {
        let place = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// Answers questions from all over, one after another: until the answer is durable, and from there until the next worker has started.
async fn answer_many(agora: &Agora, open: u64, answers: u64) -> Result<(Times, Times), Failure> {
    let me = Answerer::new("user:bench", "bench");
    let (mut accepted, mut started) = (Vec::new(), Vec::new());
    for number in 0..answers.min(open) {
        let (_, _, question) = fill::ids(number * (open / answers.min(open)));
        let stopwatch = Stopwatch::start();
        let (thread, answered) =
            agora.answer(&question, &Given::Text("a".to_owned()), &me).await.map_err(broken)?;
        let durable = stopwatch.elapsed();
        // Six entries are there: the answer and its dispatch are the last two.
        let mut events = thread.events(6).map_err(broken)?;
        while let Some(entry) = events.next().await.map_err(broken)? {
            if has_started(&entry.what, &answered.dispatch_id) {
                break;
            }
        }
        accepted.push(durable);
        started.push(stopwatch.elapsed() - durable);
        let result = thread.wait().await.map_err(broken)?;
        if result.state != "finished" {
            return Err(broken(format!("a dispatch is {}: {:?}", result.state, result.failure)));
        }
    }
    Ok((Times::new(accepted), Times::new(started)))
}

fn has_started(what: &Happening, dispatch: &DispatchId) -> bool {
    matches!(what, Happening::Event(Event::Started { dispatch_id }) if dispatch_id == dispatch)
}

fn fsyncs(path: &Path, runs: u64) -> Result<Times, Failure> {
    let failed = |source| Failure::file("write", path, &source);
    let mut file = File::create(path).map_err(failed)?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let stopwatch = Stopwatch::start();
        file.write_all(&[b'x'; 4096]).and_then(|()| file.sync_data()).map_err(failed)?;
        times.push(stopwatch.elapsed());
    }
    Ok(Times::new(times))
}

/// A page of the inbox with what has changed since, as the command shows it: the first one, and one from the middle.
fn pages(
    subject: &Subject,
    runtime: &Runtime,
    agora: &Agora,
    home: &Path,
    count: u64,
) -> Result<Vec<Figure>, Failure> {
    let page = |after: Option<(ThreadId, QuestionId)>| {
        let filter = OpenFilter { namespace: None, after, most: PAGE };
        let stopwatch = Stopwatch::start();
        runtime.block_on(async {
            let page = agora.inbox(&filter).await.map_err(broken)?;
            agora.stale(&page).await.map_err(broken).map(drop)
        })?;
        Ok(stopwatch.elapsed())
    };
    // One that was not answered: those have round numbers.
    let (thread, _, question) = fill::ids(count / 2 + 1);
    let middle = (thread, question);
    let mut command = subject.agora(&home.join("agora")).args(["inbox", "--json"]);
    let mut line = subject.agora(&home.join("agora")).args(["status", "--line"]);
    let mut nothing = Subject::nothing();
    let [first, middle, command, line, spawn] = rounds::medians([
        &mut || page(None),
        &mut || page(Some(middle.clone())),
        &mut || rounds::mean_of(&mut command, 5),
        &mut || rounds::mean_of(&mut line, 5),
        &mut || rounds::mean_of(&mut nothing, 50),
    ])?;
    Ok(vec![
        Figure::time(format!("first page of the inbox, {PAGE} of {count}"), first, SPAWN, spawn)
            .wish("≤ 50 ms"),
        Figure::time(format!("a page from its middle, {PAGE} of {count}"), middle, SPAWN, spawn)
            .wish("≤ 50 ms"),
        Figure::time("`agora inbox --json`, the whole command", command, SPAWN, spawn).wish("≤ 50 ms"),
        Figure::time(format!("`agora status --line`, {count} open"), line, SPAWN, spawn),
    ])
}

/// Opens everything anew and looks after what a dead engine left: nothing, and every question is there.
fn restart(subject: &Subject, runtime: &Runtime, home: &Path) -> Result<Vec<Figure>, Failure> {
    let start = || {
        let stopwatch = Stopwatch::start();
        let agora = open(subject, home);
        runtime.block_on(agora.recover()).map_err(broken)?;
        Ok(stopwatch.elapsed())
    };
    let mut nothing = Subject::nothing();
    let [restart, spawn] = rounds::medians([&mut || start(), &mut || rounds::mean_of(&mut nothing, 50)])?;
    Ok(vec![Figure::time("restart: open and recover", restart, SPAWN, spawn).wish("≤ 2 s")])
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new("the pause could not be measured").because(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Duration, Times};

    #[test]
    fn a_percentile_is_the_time_that_so_many_stay_within() {
        let times = Times::new((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!(times.at(50), Duration::from_millis(100));
        assert_eq!(times.at(99), Duration::from_millis(198));
        assert_eq!(Times::new(Vec::new()).at(99), Duration::ZERO);
    }
}
