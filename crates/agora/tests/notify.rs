//! People who are told of questions away from the terminal.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agora_testkit::cli::{Cli, command, run};
use serde_json::{Value, json};

const ASKER: &str = r#"if [ -f .agora/resume.json ]; then exit 0; fi
echo '{"question": "Which database?", "options": ["sqlite", "postgres"]}' > .agora/needs_input.json"#;

fn script(path: &Path, text: &str) -> String {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A pipe that a program of the user's writes to: whoever reads it waits until somebody was told.
struct Mailbox(PathBuf);

impl Mailbox {
    fn new(cli: &Cli) -> Self {
        let path = cli.work().join("mailbox");
        assert_eq!(run(command("mkfifo").arg(&path)).code, Some(0));
        Self(path)
    }

    fn next(&self) -> String {
        let mut text = String::new();
        File::open(&self.0).unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

fn asker(cli: &Cli) {
    let register = ["subagent", "register", "--name", "asker", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", ASKER]].concat()).success();
}

#[test]
fn a_program_is_told_of_a_question_and_of_an_end_that_nobody_waits_for() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    asker(&cli);
    let mailbox = Mailbox::new(&cli);
    let program = script(&cli.work().join("bin/post"), "{ echo \"$*\"; cat; } > \"$1\"");
    cli.settings(&format!("notify = [\"command:{program} '{}' 'two words'\"]\n", mailbox.0.display()));
    let call = ["dispatch", "run", "--subagent", "asker", "--label", "nightly", "--detach", "--json"];
    let accepted = cli.run(&call).json();
    let told = mailbox.next();
    let (arguments, document) = told.split_once('\n').unwrap();
    assert_eq!(arguments, format!("{} two words", mailbox.0.display()));
    let document: Value = serde_json::from_str(document).unwrap();
    let id = document["questionId"].as_str().unwrap();
    assert_eq!((&document["kind"], &document["question"]), (&"opened".into(), &"Which database?".into()));
    assert_eq!(document["threadId"], accepted["threadId"]);
    assert_eq!(document["summary"], format!("asker (nightly) asks: agora answer {id} VALUE"));
    assert_eq!(document["questions"][0]["options"], json!([{"label": "sqlite"}, {"label": "postgres"}]));

    let next = cli.run(&["answer", id, "sqlite", "--json"]).json();
    let told = mailbox.next();
    let document: Value = serde_json::from_str(told.split_once('\n').unwrap().1).unwrap();
    assert_eq!((&document["kind"], &document["state"]), (&"ended".into(), &"finished".into()));
    assert_eq!(document["dispatchId"], next["dispatchId"]);
}

#[test]
fn the_desktop_gets_a_line_without_the_question_in_it() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let mailbox = Mailbox::new(&cli);
    let program =
        script(&cli.work().join("bin/notify-send"), &format!("echo \"$@\" > {}", mailbox.0.display()));
    let cli = cli.program("notify-send", Path::new(&program));
    asker(&cli);
    cli.settings("notify = [\"desktop\"]\n");
    let asked = cli.run(&["dispatch", "run", "--subagent", "asker", "--pause-ok", "--json"]).json();
    let id = asked["needsInput"]["questionId"].as_str().unwrap();
    assert_eq!(mailbox.next(), format!("--app-name=agora -- asker asks: agora answer {id} VALUE\n"));
}

#[test]
fn what_went_wrong_is_told_by_the_doctor_until_it_works_again() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    asker(&cli);
    let program = script(&cli.work().join("bin/post"), "echo 'no network' >&2; exit 3");
    cli.settings(&format!("notify = [\"command:{program} --token abc\", \"desktop\"]\n"));
    let tell = |ways: Value| {
        let message = json!({"ways": ways, "summary": "x", "document": {"kind": "opened"}});
        cli.run_with_input(&["tell"], &message.to_string()).success()
    };
    tell(json!([{"command": [program, "--token", "abc"]}]));
    let findings = || {
        let all: Value = serde_json::from_str(&cli.run(&["doctor", "--json"]).stdout).unwrap();
        let notify = all.as_array().unwrap().iter().filter(|finding| finding["topic"] == "notify").cloned();
        notify.map(|finding| finding["detail"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let found = findings();
    assert!(found[1].starts_with("`desktop` is wanted, and there is no "), "{found:?}");
    assert!(found[2].contains("ended with exit status: 3: no network"), "{found:?}");
    assert!(!found.concat().contains("abc"), "arguments may hold anything: {found:?}");
    assert!(cli.run(&["status"]).stderr.contains("nobody was told by"));
    script(&cli.work().join("bin/post"), "exec true");
    tell(json!([{"command": [program]}]));
    assert_eq!(findings().len(), 2, "it works again");
    assert_eq!(cli.run(&["tell"]).code, Some(2), "nothing is no message");
}

#[test]
fn a_project_that_is_not_trusted_names_nobody_to_tell() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    asker(&cli);
    cli.write("agora.toml", "notify = [\"command:/bin/false\"]\n");
    let ran = cli.run(&["dispatch", "run", "--subagent", "asker", "--pause-ok"]);
    assert!(ran.stderr.contains("these keys are ignored, it is not trusted: notify;"), "{}", ran.stderr);
}
