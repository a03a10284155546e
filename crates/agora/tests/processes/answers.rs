//! Answers from many processes: one counts, everybody else is told who was first, and the work goes on once.

use agora_core::entry::Happening;
use agora_core::record::Record;
use agora_testkit::cli::Ran;
use agora_testkit::part;
use serde_json::{Value, json};

use crate::support::{Chance, Place, until, wait};

/// Asks once, and goes on with the answer.
const ASKER: &str = r#"if [ -f .agora/resume.json ]; then cat notes; exit; fi
echo "half done" > notes
echo '{"question": "Which?", "options": ["a", "b"], "partial_state": {"seen": 1}}' > .agora/needs_input.json"#;

fn pause(place: &Place, id: &str) -> Value {
    let asked = place.dispatch("asker", id, &["--pause-ok"]).json();
    assert_eq!(asked["state"], "needs_input");
    asked["needsInput"]["questionId"].clone()
}

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKER);
    place
}

fn outcome(ran: &Ran) -> String {
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    said["error"]["code"].as_str().map_or_else(|| "accepted".to_owned(), str::to_owned)
}

#[test]
fn of_two_hundred_who_answer_at_once_one_counts() {
    let place = place();
    let question = pause(&place, "d_many");
    let question = question.as_str().unwrap();
    let all: Vec<_> = (0..200).map(|_| place.start(&["answer", question, "b", "--json"])).collect();
    let said: Vec<Ran> = all.into_iter().map(wait).collect();
    let counted: Vec<&Ran> = said.iter().filter(|ran| ran.code == Some(0)).collect();
    assert_eq!(counted.len(), 1);
    for refused in said.iter().filter(|ran| ran.code != Some(0)) {
        assert_eq!((refused.code, outcome(refused).as_str()), (Some(2), "answered-before"), "{refused:?}");
        assert!(refused.stdout.contains("through `cli`"), "who was first: {}", refused.stdout);
    }
    place.come_to_rest();
    let kinds = place.kinds("d_many");
    let expected = [
        "dispatch.accepted",
        "dispatch.started",
        "dispatch.needs_input",
        "question.opened",
        "question.answered",
        "dispatch.accepted",
        "dispatch.started",
        "dispatch.finished",
        "thread.ended",
    ];
    let next: Value = serde_json::from_str(&counted[0].stdout).unwrap();
    let result = place.show(next["dispatchId"].as_str().unwrap());
    assert_eq!(kinds, expected, "{}", result["failure"]);
    assert_eq!(result["output"]["text"], "half done\n");
    assert_eq!(place.runs().values().copied().collect::<Vec<_>>(), [1, 1]);
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// Sixty races, 500 with `--full`.
fn races() -> u64 {
    if part::full() { 500 } else { 60 }
}

#[test]
fn an_answer_against_a_decline_against_a_cancel() {
    let place = place();
    let mut winners = std::collections::BTreeMap::<&str, u32>::new();
    for seed in 0..races() {
        let (mut chance, id) = (Chance::new(seed), format!("d_race-{seed}"));
        let question = pause(&place, &id);
        let question = question.as_str().unwrap();
        let mut calls: Vec<Vec<&str>> =
            vec![vec!["answer", question, "a"], vec!["answer", question, "--decline"], vec!["cancel", &id]];
        for place in (1..calls.len()).rev() {
            calls.swap(place, usize::try_from(chance.below(place as u64 + 1)).unwrap());
        }
        let started: Vec<_> =
            calls.iter().map(|call| place.start(&[&call[..], &["--json"]].concat())).collect();
        let said: Vec<Ran> = started.into_iter().map(wait).collect();
        until("the thread has ended", || {
            place.cli.run(&["thread", "show", &id, "--json"]).json()["state"] != "running"
                && place.live().is_empty()
        });
        let story = place.story(&place.recorded(&id).unwrap().job.thread_id);
        let closed: Vec<&str> = story.iter().filter_map(closing).collect();
        assert_eq!(closed.len(), 1, "seed {seed}: {story:?}");
        *winners.entry(closed[0]).or_default() += 1;
        // Whoever lost was told so, and whoever was told that it was done did it.
        for (call, ran) in calls.iter().zip(&said) {
            let own = match call.as_slice() {
                ["cancel", ..] => continue,
                [_, _, "--decline"] => "question.declined",
                _ => "question.answered",
            };
            assert_eq!(ran.code == Some(0), closed[0] == own, "seed {seed}: {call:?} {ran:?} {story:?}");
        }
    }
    eprintln!("{winners:?}");
    place.come_to_rest();
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

fn closing(what: &Happening) -> Option<&'static str> {
    match what {
        Happening::Record(
            record @ (Record::QuestionAnswered { .. }
            | Record::QuestionDeclined { .. }
            | Record::QuestionCancelled { .. }),
        ) => Some(record.kind()),
        Happening::Event(_) | Happening::Record(_) => None,
    }
}

#[test]
fn a_declined_question_ends_its_thread_and_takes_no_answer() {
    let place = place();
    let question = pause(&place, "d_declined");
    let question = question.as_str().unwrap();
    place.cli.run(&["answer", question, "--decline"]).success();
    let late = place.cli.run(&["answer", question, "a", "--json"]);
    assert_eq!((late.code, outcome(&late).as_str()), (Some(2), "question-declined"));
    let thread = place.cli.run(&["thread", "show", "d_declined", "--json"]).json();
    assert_eq!(thread["state"], "failed");
    assert_eq!(thread["failure"]["code"], "question-declined");
    assert_eq!(thread["dispatches"][0]["state"], "needs_input", "the dispatch stays what it was");
    assert_eq!(place.cli.run(&["inbox", "--json"]).json(), json!([]));
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn answers_that_cannot_count_change_nothing() {
    let place = place();
    let running = place.start(&[
        "dispatch",
        "run",
        "--subagent",
        "asker",
        "--dispatch-id",
        "d_one",
        "--pause-ok",
        "--json",
    ]);
    let early = place.cli.run(&["answer", "q_one", "a", "--json"]);
    // Before anything is asked, or just after: never a bug, never a change.
    assert!([Some(0), Some(2)].contains(&early.code), "{early:?}");
    wait(running).json();
    if early.code == Some(0) {
        return;
    }
    let refused = [
        (vec!["answer", "q_one", "c"], "answer-unfit"),
        (vec!["answer", "q_one", ""], "answer-unfit"),
        (vec!["answer", "q_one", "--answers", r#"{"q2": "a"}"#], "answer-unfit"),
        (vec!["answer", "q_one", "--answers", "[]"], "bad-answers"),
        (vec!["answer", "q_none", "a"], "unknown-id"),
        (vec!["continue", "d_one"], "question-open"),
    ];
    let before = place.kinds("d_one");
    for (call, code) in refused {
        let ran = place.cli.run(&[&call[..], &["--json"]].concat());
        assert_eq!((ran.code, outcome(&ran).as_str()), (Some(2), code), "{call:?}");
    }
    assert_eq!(place.kinds("d_one"), before);
    let ran = place.cli.run(&["answer", "q_one", "--answers", r#"{"q1": 2}"#, "--follow", "--json"]).json();
    assert_eq!(ran["receipt"]["statement"]["answers"], json!({"q1": "b"}));
    assert_eq!(ran["result"]["state"], "finished");
}

/// Says in the worker's own stream, and in a file beside it, that it has an answer and is done; and asks.
const LIAR: &str = r#"if [ -f .agora/resume.json ]; then cat .agora/resume.json; exit; fi
out=${PWD%/work}/out
echo '{"q1": "a"}' > "$out/answer.json"
for kind in '"question.answered","data":{"questionId":"q_liar","answers":{"q1":"a"},"by":{"principal":"user:ann","door":"cli"}}' \
  '"dispatch.finished","data":{"dispatchId":"d_liar","durationMs":1}'; do
  echo '{"version":1,"seq":3,"at":"2026-11-15T12:00:00.000Z","namespace":"default","threadId":"t_1","kind":'"$kind"'}' >> "$out/events.jsonl"
done
echo '{"question": "Which?", "options": ["a", "b"]}' > .agora/needs_input.json"#;

#[test]
fn what_an_agent_writes_beside_its_worker_is_no_answer() {
    let place = place();
    place.agent("liar", LIAR);
    let asked = place.dispatch("liar", "d_liar", &["--pause-ok"]).json();
    assert_eq!(asked["state"], "needs_input", "{asked}");
    let stream = std::fs::read_to_string(place.dispatch_dir("d_liar").join("out/events.jsonl")).unwrap();
    assert!(
        stream.contains("question.answered") && stream.contains("dispatch.finished"),
        "it did lie: {stream}"
    );
    let open = ["dispatch.accepted", "dispatch.started", "dispatch.needs_input", "question.opened"];
    assert_eq!(place.kinds("d_liar"), open);
    place.cli.run(&["ls"]).success();
    assert_eq!(place.kinds("d_liar"), open, "nor when somebody looks again");
    let ran = place.cli.run(&["answer", "q_liar", "b", "--follow", "--json"]).json();
    let resumed: Value = serde_json::from_str(ran["result"]["output"]["text"].as_str().unwrap()).unwrap();
    assert_eq!(resumed["answer"], "b", "what a person said is what it gets");
}
