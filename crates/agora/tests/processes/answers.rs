//! Answers from many processes: one counts, everybody else is told who was first, and the work goes on once.

use agora_core::entry::Happening;
use agora_core::record::Record;
use agora_testkit::cli::Ran;
use agora_testkit::part;
use serde_json::{Value, json};

use crate::support::{Chance, Place, Winners, run, told_how_it_ended, until, wait};

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

/// Whoever continues a thread whose question was declined has given no answer. What the agent had noted is not lost with it.
#[test]
fn the_notes_of_a_question_that_was_declined_are_there_when_the_thread_is_continued() {
    let place = Place::new();
    let notes = r#"[ -f asked ] && { tr -d ' \n' < .agora/resume.json; exit; }
touch asked; echo '{"question": "Which?", "partial_state": {"seen": [1]}}' > .agora/needs_input.json"#;
    place.agent("asker", notes);
    let asked =
        place.dispatch("asker", "d_notes", &["--pause-ok", "--partial-state", "{\"seen\": []}"]).json();
    let question = asked["needsInput"]["questionId"].as_str().unwrap();
    place.cli.run(&["answer", question, "--decline"]).success();
    let result = place.cli.run(&["continue", "d_notes", "--json"]).json();
    let thread = &asked["threadId"];
    assert_eq!(
        result["output"]["text"],
        json!(format!("{{\"partial_state\":{{\"seen\":[1]}},\"threadId\":{thread}}}"))
    );
    assert_eq!(result["resumedWith"], json!({"session": false, "workspace": true, "partialState": true}));
}

/// Nobody is asked twice: what was answered belongs to the thread, and not to the dispatch that failed with it.
#[test]
fn an_answer_outlives_the_dispatch_that_failed_with_it() {
    let place = Place::new();
    let agent = r#"echo run >> runs; case $(wc -l < runs) in
1) echo '{"question": "Which?", "options": ["a", "b"]}' > .agora/needs_input.json;;
2) exit 1;;
*) cat; grep -o '"answer": "[^"]*"' .agora/resume.json;;
esac"#;
    place.agent("asker", agent);
    let asked = place.dispatch("asker", "d_again", &["--pause-ok"]).json();
    let question = asked["needsInput"]["questionId"].as_str().unwrap();
    let failed = place.cli.run(&["answer", question, "b", "--follow", "--json"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let done = place.cli.run(&["continue", "d_again", "be quick", "--json"]).json();
    let heard = done["output"]["text"].as_str().unwrap();
    assert!(heard.starts_with("USER_INPUT_RESPONSE {\"q1\":\"b\"}"), "{heard}");
    assert!(heard.contains("\n\nbe quick\n\n") && heard.trim_end().ends_with("\"answer\": \"b\""), "{heard}");
    let story = place.cli.run(&["thread", "show", "d_again", "--json"]).json();
    assert_eq!(story["questions"].as_array().unwrap().len(), 1, "it was asked once");
    assert_eq!(story["continued"][0]["message"], "be quick");
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
    let mut winners = Winners::of(["question.answered", "question.declined", "question.cancelled"]);
    let mut seed = 0;
    while seed < races() || winners.missing().is_some() {
        let (mut chance, id) = (Chance::new(seed), format!("d_race-{seed}"));
        let question = pause(&place, &id);
        let question = question.as_str().unwrap();
        let mut calls: Vec<(&str, Vec<&str>)> = vec![
            ("question.answered", vec!["answer", question, "a"]),
            ("question.declined", vec!["answer", question, "--decline"]),
            ("question.cancelled", vec!["cancel", &id]),
        ];
        for place in (1..calls.len()).rev() {
            calls.swap(place, usize::try_from(chance.below(place as u64 + 1)).unwrap());
        }
        // Chance may have let one of them never win: then that one begins, with a lead that grows until it does.
        let lead = winners.lead(seed, races());
        if let Some((favourite, _)) = lead {
            calls.sort_by_key(|(own, _)| *own != favourite);
        }
        let mut started = Vec::new();
        for (_, call) in &calls {
            started.push(place.start(&[&call[..], &["--json"]].concat()));
            if let (1, Some((_, lead))) = (started.len(), lead) {
                std::thread::sleep(lead);
            }
        }
        let said: Vec<Ran> = started.into_iter().map(wait).collect();
        let mut shown = Value::Null;
        until("the thread has ended", || {
            shown = place.cli.run(&["thread", "show", &id, "--json"]).json();
            shown["state"] != "running" && place.live().is_empty()
        });
        let story = place.story(&place.recorded(&id).unwrap().job.thread_id);
        let closed: Vec<&str> = story.iter().filter_map(closing).collect();
        assert_eq!(closed.len(), 1, "seed {seed}: {story:?}");
        winners.won(closed[0]);
        // Whoever lost was told so, and whoever was told that it was done did it.
        for ((own, call), ran) in calls.iter().zip(&said) {
            if *own == "question.cancelled" {
                told_how_it_ended(ran, &shown);
            } else {
                assert_eq!(ran.code == Some(0), closed[0] == *own, "seed {seed}: {call:?} {ran:?} {story:?}");
            }
        }
        seed += 1;
    }
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
    let gate = place.mark("gate");
    place.agent("late", &format!("while [ ! -e {} ]; do sleep 0.02; done\n{ASKER}", gate.display()));
    let running = place.start(&run("late", "d_one", &["--pause-ok"]));
    until("the agent runs", || place.kinds_if("d_one").contains(&"dispatch.started"));
    let before = place.kinds("d_one");
    let early = place.cli.run(&["answer", "q_one", "a", "--json"]);
    assert_eq!((early.code, outcome(&early).as_str()), (Some(2), "nothing-asked"), "{early:?}");
    assert_eq!(place.kinds("d_one"), before);
    std::fs::write(&gate, "").unwrap();
    wait(running).json();
    place.cli.write("twice.json", r#"{"q1": "a", "q1": "b"}"#);
    let refused = [
        (vec!["answer", "q_one", "c"], "answer-unfit"),
        (vec!["answer", "q_one", ""], "answer-unfit"),
        (vec!["answer", "q_one", "--answers", r#"{"q2": "a"}"#], "answer-unfit"),
        (vec!["answer", "q_one", "--answers", "[]"], "bad-answers"),
        (vec!["answer", "q_one", "--answers", r#"{"q1": "a", "q1": "b"}"#], "bad-answers"),
        (vec!["answer", "q_one", "--from-file", "twice.json"], "bad-answers"),
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

/// Asked and not yet open: only whoever looks between two writes of an older agora, or of one that died, can see that.
#[test]
fn an_answer_before_the_question_is_open_is_refused_and_changes_nothing() {
    let place = place();
    let question = pause(&place, "d_early");
    let ledger = rusqlite::Connection::open(place.cli.agora_home().join("ledger.sqlite")).unwrap();
    let unopened = "DELETE FROM entries WHERE seq = 4; UPDATE threads SET seen = 3";
    ledger.execute_batch(unopened).unwrap();
    drop(ledger);
    let before = place.kinds("d_early");
    assert_eq!(before.last(), Some(&"dispatch.needs_input"));
    let early = place.cli.run(&["answer", question.as_str().unwrap(), "a", "--json"]);
    assert_eq!((early.code, outcome(&early).as_str()), (Some(2), "question-not-open"), "{early:?}");
    assert_eq!(place.kinds("d_early"), before);
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
