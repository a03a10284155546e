//! Cancel against finish against the time limit: whoever wins, there is one end, and everybody tells the same.

use std::fs;
use std::thread;
use std::time::Duration;

use agora_core::entry::Happening;
use agora_testkit::part;
use serde_json::Value;

use crate::support::{Chance, Place, run, until, wait};

/// Races of each of the three tests: 60 altogether, 500 with `--full`.
fn races() -> u64 {
    if part::full() { 167 } else { 20 }
}

/// Runs races in which the agent takes about `agent` ms, and the canceller comes after about `cancel` ms.
fn race(seeds: u64, agent: u64, cancel: u64) {
    let place = Place::new();
    let mut ends = std::collections::BTreeMap::<String, u32>::new();
    for seed in seeds..seeds + races() {
        let mut chance = Chance::new(seed);
        let nap = (agent + chance.below(240)).saturating_sub(120);
        let late = Duration::from_millis((cancel + chance.below(400)).saturating_sub(200));
        let (name, id) = (format!("nap-{}", nap / 20 * 20), format!("d_race-{seed}"));
        eprintln!("seed {seed}: the agent takes {nap} ms, the cancel comes after {late:?}");
        place.agent(&name, &format!("sleep {}.{:03}; echo done", nap / 1000, nap / 20 * 20 % 1000));
        let command = place.start(&run(&name, &id, &["--timeout", "1"]));
        until("it is accepted", || place.recorded(&id).is_some());
        thread::sleep(late);
        let cancelled = place.cli.run(&["cancel", &id, "--json"]).json();
        assert_eq!(place.alive().iter().filter(|one| one.command.contains("worker")).count(), 0);
        *ends.entry(agreed(&place, &id, &cancelled, &wait(command).stdout)).or_default() += 1;
        assert_eq!(place.leftovers(), Vec::<String>::new(), "seed {seed}");
    }
    eprintln!("{ends:?}");
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
    race(1000, 200, 350);
}

#[test]
fn a_finish_against_the_time_limit() {
    race(2000, 1000, 1600);
}

#[test]
fn a_cancel_against_the_time_limit_against_a_finish() {
    race(3000, 1000, 1200);
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
    let mut winners = std::collections::BTreeMap::<&str, u32>::new();
    for seed in 0..question_races() {
        let (mut chance, id) = (Chance::new(seed), format!("d_race-{seed}"));
        place.configure(&format!(
            "[target.local]\nmax_concurrent = 2\n[[route]]\nexpire_after = \"{}ms\"\nat_expiry = \"fail\"\n",
            300 + chance.below(400)
        ));
        let asked = wait(place.start(&run("asker", &id, &["--pause-ok"]))).json();
        let question = asked["needsInput"]["questionId"].as_str().unwrap().to_owned();
        thread::sleep(Duration::from_millis(chance.below(500)));
        let mut calls = [vec!["answer", &question, "a"], vec!["cancel", &id], vec!["ls"]];
        let turn = usize::try_from(chance.below(3)).unwrap();
        calls.rotate_left(turn);
        let started: Vec<_> =
            calls.iter().map(|call| place.start(&[&call[..], &["--json"]].concat())).collect();
        let said: Vec<_> = started.into_iter().map(wait).collect();
        until("the thread has ended", || place.live().is_empty() && place.carriers().is_empty());
        let story = place.story(&place.recorded(&id).unwrap().job.thread_id);
        let closed: Vec<&str> = story.iter().filter_map(closing).collect();
        assert_eq!(closed.len(), 1, "seed {seed}: {story:?}");
        *winners.entry(closed[0]).or_default() += 1;
        // Everybody can see who won, and whoever answered is told.
        for (call, ran) in calls.iter().zip(&said).filter(|(call, _)| call[0] == "answer") {
            assert_eq!(
                ran.code == Some(0),
                closed[0] == "question.answered",
                "seed {seed}: {call:?} {ran:?} {story:?}"
            );
        }
        let shown = place.cli.run(&["thread", "show", &id, "--json"]).json();
        assert_eq!(format!("question.{}", shown["questions"][0]["state"].as_str().unwrap()), closed[0]);
    }
    eprintln!("{winners:?}");
    place.come_to_rest();
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

fn closing(what: &Happening) -> Option<&'static str> {
    let kind = what.kind();
    ["question.answered", "question.declined", "question.expired", "question.cancelled"]
        .contains(&kind)
        .then_some(kind)
}
