//! Cancel against finish against the time limit: whoever wins, there is one end, and everybody tells the same.

use std::fs;
use std::thread;
use std::time::Duration;

use agora_core::entry::Happening;
use agora_testkit::part;
use serde_json::Value;

use crate::support::{Chance, Place, Winners, run, told_how_it_ended, until, wait};

/// Races of each of the three tests: 60 altogether, 500 with `--full`.
fn races() -> u64 {
    if part::full() { 167 } else { 20 }
}

/// Runs races in which the agent takes about `agent` ms, and the canceller comes after about `cancel` ms, until each of the ends
/// has come about.
fn race<const N: usize>(seeds: u64, agent: u64, cancel: u64, ends: [&'static str; N]) {
    let place = Place::new();
    let mut ends = Winners::of(ends);
    let mut seed = seeds;
    while seed < seeds + races() || ends.missing().is_some() {
        let mut chance = Chance::new(seed);
        let nap = (agent + chance.below(240)).saturating_sub(120);
        let late = Duration::from_millis((cancel + chance.below(400)).saturating_sub(200));
        let (nap, late) = match ends.lead(seed, seeds + races()) {
            None => (nap, late),
            Some(("finished", lead)) => (20, Duration::from_secs(1) + lead),
            Some(("cancelled", _)) => (900, Duration::ZERO),
            // The agent takes longer than the time limit, and the cancel comes after that.
            Some((_, lead)) => (3000, Duration::from_millis(1500) + lead),
        };
        let (name, id) = (format!("nap-{}", nap / 20 * 20), format!("d_race-{seed}"));
        eprintln!("seed {seed}: the agent takes {nap} ms, the cancel comes after {late:?}");
        place.agent(&name, &format!("sleep {}.{:03}; echo done", nap / 1000, nap / 20 * 20 % 1000));
        let command = place.start(&run(&name, &id, &["--timeout", "1"]));
        until("it is accepted", || place.recorded(&id).is_some());
        thread::sleep(late);
        let cancelled = place.cli.run(&["cancel", &id, "--json"]).json();
        assert_eq!(place.alive().iter().filter(|one| one.command.contains("worker")).count(), 0);
        let end = agreed(&place, &id, &cancelled, &wait(command).stdout);
        ends.won(&end);
        assert_eq!(place.leftovers(), Vec::<String>::new(), "seed {seed}");
        seed += 1;
    }
}

/// Asserts that everybody tells the same end, and returns it.
fn agreed(place: &Place, id: &str, cancelled: &Value, said: &str) -> String {
    let told: Value = serde_json::from_str(said).unwrap();
    let shown = place.show(id);
    let end = told["state"].as_str().unwrap();
    assert_eq!(told, shown, "the command and `show`");
    assert_eq!(cancelled["state"], end, "the command and the cancel");
    let thread = place.recorded(id).unwrap().job.thread_id;
    let story = place.story(&thread);
    let terminal: Vec<&str> = story
        .iter()
        .filter(|what| matches!(what, Happening::Event(event) if event.is_terminal()))
        .map(Happening::kind)
        .collect();
    assert_eq!(terminal, [format!("dispatch.{end}")], "{story:?}");
    let stored = fs::read_to_string(place.dispatch_dir(id).join("out/outcome.json")).unwrap();
    assert!(stored.contains(terminal[0]), "{stored}");
    match end {
        "failed" => assert_eq!(told["failure"]["code"], "time-limit", "{told}"),
        "finished" => assert_eq!(told["output"]["text"], "done\n", "{told}"),
        _ => assert_eq!(end, "cancelled"),
    }
    end.to_owned()
}

#[test]
fn a_cancel_against_a_finish() {
    race(1000, 200, 350, ["cancelled", "finished", "failed"]);
}

#[test]
fn a_finish_against_the_time_limit() {
    race(2000, 1000, 1600, ["finished", "failed", "cancelled"]);
}

#[test]
fn a_cancel_against_the_time_limit_against_a_finish() {
    race(3000, 1000, 1200, ["cancelled", "failed", "finished"]);
}

/// Asks once.
const ASKER: &str = r#"if [ -f .agora/resume.json ]; then echo done; exit; fi
echo '{"question": "Which?", "options": ["a", "b"]}' > .agora/needs_input.json"#;

/// Races of a cancel, an answer and an expiry: 60, 500 with `--full`.
fn question_races() -> u64 {
    if part::full() { 500 } else { 60 }
}

#[test]
fn a_cancel_against_an_answer_against_an_expiry() {
    let place = Place::new();
    place.agent("asker", ASKER);
    let mut winners = Winners::of(["question.answered", "question.cancelled", "question.expired"]);
    let mut seed = 0;
    while seed < question_races() || winners.missing().is_some() {
        let (mut chance, id) = (Chance::new(seed), format!("d_race-{seed}"));
        let lead = winners.lead(seed, question_races());
        let (mut expires, mut late) = (300 + chance.below(400), Duration::from_millis(chance.below(500)));
        match lead {
            // Nobody comes before its time is over, or it has all the time that the one takes who is to win.
            Some(("question.expired", lead)) => (expires, late) = (300, Duration::from_millis(300) + lead),
            Some(_) => (expires, late) = (60_000 + expires, Duration::ZERO),
            None => {}
        }
        place.configure(&format!(
            "[target.local]\nmax_concurrent = 2\n[[route]]\nexpire_after = \"{expires}ms\"\nat_expiry = \"fail\"\n"
        ));
        let asked = wait(place.start(&run("asker", &id, &["--pause-ok"]))).json();
        let question = asked["needsInput"]["questionId"].as_str().unwrap().to_owned();
        thread::sleep(late);
        let mut calls = [
            ("question.answered", vec!["answer", &question, "a"]),
            ("question.cancelled", vec!["cancel", &id]),
            ("question.expired", vec!["ls"]),
        ];
        calls.rotate_left(usize::try_from(chance.below(3)).unwrap());
        if let Some((favourite, _)) = lead {
            calls.sort_by_key(|(own, _)| *own != favourite);
        }
        let mut started = Vec::new();
        for (_, call) in &calls {
            started.push(place.start(&[&call[..], &["--json"]].concat()));
            if let (1, Some((_, lead))) = (started.len(), lead) {
                thread::sleep(lead);
            }
        }
        let said: Vec<_> = started.into_iter().map(wait).collect();
        until("the thread has ended", || place.live().is_empty() && place.carriers().is_empty());
        let story = place.story(&place.recorded(&id).unwrap().job.thread_id);
        let closed: Vec<&str> = story.iter().filter_map(closing).collect();
        assert_eq!(closed.len(), 1, "seed {seed}: {story:?}");
        winners.won(closed[0]);
        let shown = place.cli.run(&["thread", "show", &id, "--json"]).json();
        assert_eq!(format!("question.{}", shown["questions"][0]["state"].as_str().unwrap()), closed[0]);
        // Everybody can see who won, and whoever answered or cancelled is told.
        for ((own, call), ran) in calls.iter().zip(&said) {
            match *own {
                "question.answered" => {
                    assert_eq!(
                        ran.code == Some(0),
                        closed[0] == *own,
                        "seed {seed}: {call:?} {ran:?} {story:?}"
                    );
                }
                "question.cancelled" => told_how_it_ended(ran, &shown),
                _ => assert_eq!(ran.code, Some(0), "{ran:?}"),
            }
        }
        seed += 1;
    }
    place.come_to_rest();
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

fn closing(what: &Happening) -> Option<&'static str> {
    let kind = what.kind();
    ["question.answered", "question.declined", "question.expired", "question.cancelled"]
        .contains(&kind)
        .then_some(kind)
}
