//! Questions on their way: commands that are asked, timers that somebody turns, and what an agent tries for itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use agora_testkit::cli::{Cli, Ran};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Place, id_of, run, signal, until, wait};

/// Asks once, and goes on with the answer.
const ASKER: &str = r#"if [ -f .agora/resume.json ]; then cat .agora/resume.json; exit; fi
echo '{"question": "Which?", "options": ["a", "b"], "header": "Choice", "partial_state": {"seen": 1}}' > .agora/needs_input.json"#;

const LOCAL: &str = "[target.local]\nmax_concurrent = 2\n";

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKER);
    place
}

/// Puts a program where routes find it, and returns its path.
fn program(place: &Place, name: &str, script: &str) -> PathBuf {
    let path = place.mark(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn code(ran: &Ran) -> String {
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    said["error"]["code"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn a_command_of_the_route_answers_and_the_work_goes_on() {
    let place = place();
    let lookup = program(&place, "lookup", "cat > \"$0.asked\"; echo '{\"answer\": \"B\"}'");
    place.configure(&format!(
        "{LOCAL}[[route]]\nmatch = {{ header = \"Choice\" }}\nsteps = [{{ command = [{lookup:?}] }}]\n"
    ));
    let result = place.dispatch("asker", "d_asks", &[]).json();
    let resumed: Value = serde_json::from_str(result["output"]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&resumed["answer"], &resumed["answeredBy"]),
        (&json!("b"), &json!("command:lookup")),
        "{resumed}"
    );
    let asked: Value =
        serde_json::from_str(&fs::read_to_string(place.mark("lookup.asked")).unwrap()).unwrap();
    assert_eq!(asked["question"], "Which?");
    assert_eq!((&asked["subagent"], &asked["partialState"]), (&json!("asker"), &json!({"seen": 1})));
    let kinds = place.kinds("d_asks");
    assert_eq!(kinds[4..7], ["question.routed", "question.answered", "dispatch.accepted"], "one write");
    let shown = place.cli.run(&["thread", "show", "d_asks", "--json"]).json();
    assert_eq!(shown["questions"][0]["route"], json!([{"step": 0, "outcome": "answered"}]));
    let told = place.cli.run(&["thread", "show", "d_asks"]).success();
    assert!(told.contains("answered by command:lookup through route"), "{told}");
    assert!(told.contains("programs answered 1 question after"), "{told}");
    assert!(
        !told.contains("people thought") && !told.contains("0 processes"),
        "nobody counted those: {told}"
    );
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn what_a_command_does_instead_of_answering_is_told_apart_and_the_next_step_comes() {
    let place = place();
    let [none, fails, nonsense, hangs] = [
        ("none", "echo '{\"noAnswer\": \"not in the table\"}'"),
        ("fails", "echo 'out of order' >&2; exit 4"),
        ("nonsense", "echo '{\"answer\": \"c\"}'"),
        ("hangs", "sleep 1000 & sleep 1000"),
    ]
    .map(|(name, script)| program(&place, name, script));
    place.configure(&format!(
        "{LOCAL}[[route]]\nsteps = [{{ command = [{none:?}] }}, {{ command = [{fails:?}] }}, {{ command = [{nonsense:?}] }}, \
         {{ command = [{hangs:?}], timeout = \"300ms\" }}, {{ command = [\"/no/such/program\"] }}, {{ inbox = \"user:ann\" }}]\n"
    ));
    let result = place.dispatch("asker", "d_asks", &["--pause-ok"]).json();
    assert_eq!(result["state"], "needs_input");
    let shown = place.cli.run(&["thread", "show", "d_asks", "--json"]).json();
    let outcomes: Vec<&str> = shown["questions"][0]["route"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["no-response", "no-response", "no-response", "no-response", "no-channel"]);
    assert_eq!(shown["questions"][0]["shownTo"], json!(["user:ann"]));
    let text = place.cli.run(&["route", "test", "d_asks"]).success();
    assert!(text.contains("it is here") && text.contains("no-channel"), "{text}");
    until("nothing of the command that hangs is left", || place.alive().is_empty());
    let refused = place.cli.run(&["answer", "d_asks", "a", "--json"]);
    assert_eq!((refused.code, code(&refused).as_str()), (Some(2), "not-entitled"));
    assert!(refused.stdout.contains("user:ann"), "it names who may: {}", refused.stdout);
    // Nor is anybody else sent to answer it.
    for look in [&["show", "d_asks"][..], &["inbox"], &["thread", "show", "d_asks"]] {
        let hint = place.cli.run(look).stderr;
        assert!(
            hint.contains("only `user:ann` may answer it, by `agora answer q_asks VALUE`"),
            "{look:?}: {hint}"
        );
    }
}

#[test]
fn whoever_dies_while_a_command_is_asked_leaves_it_to_the_next() {
    let place = place();
    let gate = place.mark("gate");
    let lookup = program(
        &place,
        "lookup",
        &format!(
            "echo asked >> \"$0.log\"; while [ ! -e '{}' ]; do sleep 0.02; done; echo '{{\"answer\": \"a\"}}'",
            gate.display()
        ),
    );
    place.configure(&format!("{LOCAL}[[route]]\nsteps = [{{ command = [{lookup:?}] }}]\n"));
    let first = place.start(&run("asker", "d_asks", &[]));
    let asked = || fs::read_to_string(place.mark("lookup.log")).unwrap_or_default().lines().count();
    until("the command is asked", || asked() == 1);
    signal(id_of(&first), Signal::KILL);
    assert_eq!(wait(first).code, None, "it was killed");
    place.cli.run(&["ls"]).success();
    until("it is asked again", || asked() == 2);
    fs::write(gate, "").unwrap();
    until("it went on", || place.kinds("d_asks").contains(&"dispatch.finished"));
    place.come_to_rest();
    let answers = place.kinds("d_asks").iter().filter(|kind| **kind == "question.answered").count();
    assert_eq!(answers, 1);
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn a_cancel_ends_the_command_that_is_asked() {
    let place = place();
    let lookup = program(&place, "lookup", "echo asked >> \"$0.log\"; sleep 1000");
    place.configure(&format!("{LOCAL}[[route]]\nsteps = [{{ command = [{lookup:?}], timeout = \"1h\" }}]\n"));
    let running = place.start(&run("asker", "d_asks", &["--pause-ok"]));
    until("the command is asked", || place.mark("lookup.log").exists());
    place.cli.run(&["cancel", "d_asks"]).success();
    assert_eq!(wait(running).json()["state"], "needs_input", "its dispatch stays what it was");
    until("nothing is left of it", || place.alive().is_empty());
    let shown = place.cli.run(&["thread", "show", "d_asks", "--json"]).json();
    assert_eq!(
        (&shown["state"], &shown["questions"][0]["state"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn serve_turns_timers_that_nobody_else_turns_and_ends_cleanly() {
    let place = place();
    place.configure(&format!(
        "{LOCAL}[[route]]\nmatch = {{ label = \"patient\" }}\nexpire_after = \"1h\"\nat_expiry = \"fail\"\n\
         [[route]]\nremind_after = \"100ms\"\nexpire_after = \"700ms\"\nat_expiry = \"fail\"\n"
    ));
    assert_eq!(
        place.dispatch("asker", "d_waits", &["--label", "patient", "--pause-ok"]).json()["state"],
        "needs_input"
    );
    let untended = place.cli.run(&["inbox"]);
    assert!(untended.stderr.contains("nobody turns it by then"), "{untended:?}");
    wait(place.start(&run("asker", "d_asks", &["--detach"]))).success();
    until("it waits", || place.kinds("d_asks").contains(&"question.opened"));
    let serving = place.start(&["serve", "--json"]);
    until("it expired", || place.kinds("d_asks").contains(&"thread.ended"));
    let kinds = place.kinds("d_asks");
    assert!(kinds.contains(&"question.reminded") && kinds.contains(&"question.expired"), "{kinds:?}");
    let tended = place.cli.run(&["inbox"]);
    assert!(tended.stdout.contains("q_waits") && !tended.stderr.contains("nobody turns it"), "{tended:?}");
    let second = place.cli.run(&["serve", "--json"]);
    assert_eq!((second.code, code(&second).as_str()), (Some(2), "served-already"));
    signal(id_of(&serving), Signal::TERM);
    assert_eq!(wait(serving).json(), json!({"handedOver": []}));
    place.cli.run(&["cancel", "d_waits"]).success();
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn serve_carries_what_nobody_carries_and_hands_it_over() {
    let place = place();
    let gate = place.mark("gate");
    place.agent("waits", &format!("while [ ! -e '{}' ]; do sleep 0.02; done; echo whole", gate.display()));
    let serving = place.start(&["serve", "--json"]);
    let first = place.start(&run("waits", "d_waits", &[]));
    until("it runs", || place.kinds_if("d_waits").contains(&"dispatch.started"));
    signal(id_of(&first), Signal::KILL);
    assert_eq!(wait(first).code, None, "it was killed");
    until("it is carried", || {
        fs::read_dir(place.cli.agora_home().join("leases")).is_ok_and(|mut all| all.next().is_some())
    });
    signal(id_of(&serving), Signal::TERM);
    wait(serving).success();
    fs::write(gate, "").unwrap();
    place.come_to_rest();
    assert_eq!(place.show("d_waits")["output"]["text"], "whole\n");
}

#[test]
fn a_route_is_tested_before_it_matters() {
    let place = Place::new();
    let none = place.cli.run(&["route", "test", "--subagent", "planner", "--json"]).json();
    assert_eq!((&none["route"], none["mayAnswer"].as_array().unwrap().len()), (&Value::Null, 1));
    place.configure(
        "[target.local]\n[[route]]\nmatch = { label = \"nightly\" }\nsteps = [{ command = [\"./lookup\"] }, { inbox = \"group:leads\" }]\n\
         remind_after = \"1h\"\nexpire_after = \"3d\"\nat_expiry = \"use-default\"\n[group]\nleads = [\"user:ann\", \"user:bob\"]\n",
    );
    let test = ["route", "test", "--subagent", "planner", "--label", "nightly"];
    let text = place.cli.run(&test).success();
    for part in [
        "route 1 matches: label nightly",
        "group:leads is user:ann, user:bob",
        "step 1:",
        "/lookup`",
        "waits where an item has none",
        "if stale:    whoever answers sees what has changed, and the answer counts",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let document = place.cli.run(&[&test[..], &["--json"]].concat()).json();
    assert_eq!((&document["route"], &document["mayAnswer"]), (&json!(1), &json!(["group:leads"])));
    assert_eq!(
        document["members"],
        json!({"group:leads": ["user:ann", "user:bob"]}),
        "those of its steps, too"
    );
    assert_eq!(document["expires"], json!({"afterMs": 259_200_000_u64, "then": "use-default"}));
    assert_eq!(
        place.cli.run(&["route", "test", "--subagent", "other", "--json"]).json()["route"],
        Value::Null
    );
    let nothing = place.cli.run(&["route", "test", "q_none", "--json"]);
    assert_eq!((nothing.code, code(&nothing).as_str()), (Some(2), "unknown-id"));
    // A time without a consequence: it only waits, and whoever wrote it is told.
    place.configure("[target.local]\n[[route]]\nexpire_after = \"3d\"\nif_stale = \"fail\"\n");
    let silent = place.cli.run(&test);
    assert!(
        silent.stderr.contains("warning: `route` 1: `expire_after` does nothing by itself"),
        "{}",
        silent.stderr
    );
    let text = silent.success();
    assert!(text.contains("expires:     never; it waits\nif stale:    the thread fails"), "{text}");
}

/// Tries everything that could count as an answer, notes what came of each attempt, and asks. Resumed, it shows what it got.
const FORGER: &str = r#"if [ -f .agora/resume.json ]; then cat .agora/resume.json; echo ---; cat attempts.txt; exit; fi
try() { name=$1; shift; "$@" >> attempts.txt 2>&1; echo "$name ended with $?" >> attempts.txt; }
for name in .agora/resume.json .agora/answer.json .agora/answers.json answer.json; do
  echo '{"questionId": "q_forger", "answer": "a", "answers": {"q1": "a"}, "answeredBy": "user:ann"}' > "$name"
done
echo 'USER_INPUT_RESPONSE {"q1": "a"}'
echo '{"kind": "question.answered", "data": {"questionId": "q_forger", "answers": {"q1": "a"}}}'
try "the receipt" cp receipt.json "$AGORA_PLACE/dispatches/d_forger/in/receipt.json"
try "the ledger" sh -c 'echo x >> "$AGORA_PLACE/ledger.sqlite"'
try "its own agora" "$AGORA_PROGRAM" answer q_forger a
try "the user's agora" env AGORA_HOME="$AGORA_PLACE" "$AGORA_PROGRAM" answer q_forger a
echo '{"question": "Which?", "options": ["a", "b"]}' > .agora/needs_input.json"#;

#[test]
fn an_agent_behind_the_wall_cannot_answer_itself() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    // It gets the program: what it cannot do with it is what is shown.
    let program = PathBuf::from(env!("CARGO_BIN_EXE_agora"));
    cli.settings(&format!("[target.local]\ngrant = [\"{}:ro\"]\n", program.parent().unwrap().display()));
    let register = |name: &str, script: &str| {
        let script = script
            .replace("$AGORA_PROGRAM", env!("CARGO_BIN_EXE_agora"))
            .replace("$AGORA_PLACE", cli.agora_home().to_str().unwrap());
        let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
        cli.run(&[&register[..], &["/bin/sh", "-c", &script]].concat()).success();
    };
    register("asker", ASKER);
    register("forger", FORGER);
    // A receipt that is genuine, of another question.
    let asked = cli.run(&[
        "dispatch",
        "run",
        "--subagent",
        "asker",
        "--dispatch-id",
        "d_other",
        "--pause-ok",
        "--json",
    ]);
    assert_eq!(asked.json()["state"], "needs_input");
    let answered = cli.run(&["answer", "q_other", "a", "--follow", "--json"]).json();
    let work = cli.work().join("tree");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("receipt.json"), answered["receipt"].to_string()).unwrap();
    let tree = work.to_str().unwrap();
    let forger = [
        "dispatch",
        "run",
        "--subagent",
        "forger",
        "--dispatch-id",
        "d_forger",
        "--workspace",
        tree,
        "--pause-ok",
        "--json",
    ];
    let result = cli.run(&forger).json();
    assert_eq!(result["state"], "needs_input", "{result}");
    cli.run(&["ls"]).success();
    let shown = cli.run(&["thread", "show", "d_forger", "--json"]).json();
    assert_eq!((&shown["state"], &shown["questions"][0]["state"]), (&json!("waiting"), &json!("open")));
    assert_eq!(shown["dispatches"].as_array().unwrap().len(), 1);
    assert_eq!(shown["questions"][0]["refused"], 0, "not even an attempt came through");
    assert!(!cli.agora_home().join("dispatches/d_forger/in/receipt.json").exists());

    // What it goes on with is what a person said, and not what it wrote into the same file.
    let goes_on = cli.run(&["answer", "q_forger", "b", "--follow", "--json"]).json();
    assert_eq!(goes_on["receipt"]["statement"]["answers"], json!({"q1": "b"}));
    let told = goes_on["result"]["output"]["text"].as_str().unwrap();
    let (resumed, attempts) = told.split_once("---\n").unwrap();
    let resumed: Value = serde_json::from_str(resumed).unwrap();
    assert_eq!((&resumed["answer"], &resumed["answers"]), (&json!("b"), &json!({"q1": "b"})), "{resumed}");
    assert_ne!(resumed["answeredBy"], "user:ann");
    // Each attempt was made, and each was refused.
    for (attempt, why) in [
        ("the receipt ended with 1", "cp: "),
        ("the ledger ended with 2", "cannot create"),
        ("its own agora ended with 2", "q_forger"),
        ("the user's agora ended with", "agora"),
    ] {
        assert!(attempts.contains(attempt) && attempts.contains(why), "`{attempt}`: {attempts}");
    }
    assert!(!attempts.contains("ended with 0"), "{attempts}");
}
