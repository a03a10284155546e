//! What a question rests on moves before it is answered: whoever answers sees it, and it is recorded.

use std::fs;
use std::path::PathBuf;

use agora_testkit::cli::{Cli, run};
use serde_json::{Value, json};

use crate::support::{User, until};

/// Asks once, and goes on with the answer.
pub(crate) const ASKER: &str = r#"if [ -f .agora/resume.json ]; then cat notes; exit; fi
echo "half done" > notes
echo '{"question": "Which?", "options": ["a", "b"]}' > .agora/needs_input.json"#;

struct Scene {
    user: User,
    repository: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let user = User::new(Cli::new(env!("CARGO_BIN_EXE_agora")));
        let repository = user.repository("project");
        fs::write(repository.join(".gitignore"), "ignored\n").unwrap();
        user.git(&repository, &["add", "-A"]);
        user.git(&repository, &["commit", "--quiet", "-m", "second"]);
        let scene = Self { user, repository };
        scene.register("asker", ASKER);
        scene.secret("first-value", &[]);
        scene
    }

    fn register(&self, name: &str, script: &str) {
        let command = json!(["/bin/sh", "-c", script]);
        self.user.subagent(name, &json!({"runtime": "command", "command": command}));
    }

    fn secret(&self, value: &str, more: &[&str]) {
        let register = ["env", "register", "--name", "keys", "--secret", "KEY=env:KEY"];
        run(self.user.command(&[&register[..], more].concat()).env("KEY", value)).success();
    }

    /// Lets the asker ask, and returns the question's id.
    fn pause(&self) -> String {
        let workspace = self.repository.to_str().unwrap();
        let run = ["dispatch", "run", "--subagent", "asker", "--env", "keys", "--workspace", workspace];
        let paused = self.user.agora(&[&run[..], &["--pause-ok", "--json"]].concat()).json();
        assert_eq!(paused["state"], "needs_input", "{paused:#}");
        assert_eq!(paused["needsInput"].get("stale"), None, "nothing has changed yet");
        paused["needsInput"]["questionId"].as_str().unwrap().to_owned()
    }

    /// Returns what has changed, as the inbox tells it.
    fn stale(&self) -> Value {
        self.user.agora(&["inbox", "--json"]).json()[0]["stale"].clone()
    }

    fn answer(&self, question: &str) -> Value {
        self.user.agora(&["answer", question, "a", "--follow", "--json"]).json()
    }
}

#[test]
fn nothing_is_said_where_nothing_of_it_changed() {
    let scene = Scene::new();
    let question = scene.pause();
    // What git does not follow is nobody's base, and a look changes nothing.
    fs::write(scene.repository.join("ignored"), "x").unwrap();
    fs::write(scene.repository.join("new.txt"), "x").unwrap();
    scene.user.git(&scene.repository, &["status"]);
    scene.register("another", "true");
    scene.secret("first-value", &[]);
    assert_eq!(scene.stale(), json!([]));
    let answered = scene.answer(&question);
    assert_eq!(answered["stale"], json!([]));
    assert_eq!(answered["result"]["output"]["text"], "half done\n");
}

#[test]
fn a_source_that_moved_is_shown_before_and_with_the_answer_and_recorded() {
    let scene = Scene::new();
    let question = scene.pause();
    let head = || scene.user.git(&scene.repository, &["rev-parse", "HEAD"]).trim().to_owned();
    let was = head();
    fs::write(scene.repository.join("a.txt"), "two\n").unwrap();
    let path = fs::canonicalize(&scene.repository).unwrap();
    let files = json!({"what": "source-files", "path": path, "files": ["a.txt"], "more": 0});
    assert_eq!(scene.stale(), json!([files]));
    scene.user.git(&scene.repository, &["commit", "--quiet", "-am", "third"]);
    let commit = json!({"what": "source-commit", "path": path, "was": was, "is": head()});
    assert_eq!(scene.stale(), json!([commit, files]));

    let listed = scene.user.agora(&["inbox"]).success();
    assert!(listed.contains("\n  since then: `") && listed.contains("` moved from `"), "{listed}");
    let shown = scene.user.agora(&["show", &question]).success();
    assert!(shown.contains("since then: files of") && shown.contains("`a.txt`"), "{shown}");
    let described = scene.user.agora(&["show", &question, "--json"]).json();
    assert_eq!(described["needsInput"]["stale"], json!([commit, files]));

    let answered = scene.answer(&question);
    assert_eq!(answered["stale"], json!([commit, files]));
    assert_eq!(answered["result"]["output"]["text"], "half done\n", "it goes on with what it had");
    let told = scene.user.agora(&["dispatch", "watch", &question, "--json"]).success();
    let recorded = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let recorded = recorded.into_iter().find(|entry| entry["kind"] == "question.answered").unwrap();
    assert_eq!(recorded["data"]["stale"], json!([commit, files]));
    let story = scene.user.agora(&["thread", "show", &question, "--json"]).json();
    assert_eq!(story["questions"][0]["answer"]["stale"], json!([commit, files]));
    let story = scene.user.agora(&["thread", "show", &question]).success();
    assert_eq!(story.matches("changed by then: ").count(), 2, "{story}");
}

#[test]
fn a_source_that_is_gone_is_said_to_be() {
    let scene = Scene::new();
    scene.pause();
    let path = fs::canonicalize(&scene.repository).unwrap();
    fs::rename(&scene.repository, scene.repository.with_extension("moved")).unwrap();
    assert_eq!(scene.stale(), json!([{"what": "source-gone", "path": path}]));
}

#[test]
fn a_newer_bundle_is_shown_and_the_thread_goes_on_with_its_own() {
    let scene = Scene::new();
    let question = scene.pause();
    let before = scene.user.agora(&["show", &question, "--json"]).json()["resolved"].clone();
    scene.register("asker", "echo another");
    let newer = scene.stale();
    assert_eq!(
        (&newer[0]["what"], &newer[0]["kind"]),
        (&json!("newer-bundle"), &json!("subagent")),
        "{newer}"
    );
    assert_eq!((&newer[0]["name"], &newer[0]["was"]), (&json!("asker"), &before["subagent"]["contentHash"]));
    assert_eq!(newer.as_array().unwrap().len(), 1);
    let answered = scene.answer(&question);
    assert_eq!(answered["result"]["resolved"], before);
    assert_eq!(answered["result"]["output"]["text"], "half done\n");
}

#[test]
fn a_secret_that_was_rotated_is_shown_and_one_that_expired_takes_no_answer() {
    let scene = Scene::new();
    let question = scene.pause();
    scene.secret("second-value", &[]);
    let rotated = scene.stale();
    assert_eq!(rotated[0]["what"], "secret-rotated", "{rotated}");
    assert_eq!(rotated[0]["secret"], "local:env/default/keys/KEY", "{rotated}");
    scene.secret("second-value", &["--secret-ttl", "1s"]);
    until("its time is over", || scene.stale()[0]["what"] == "secret-expired");
    let refused = scene.user.agora(&["answer", &question, "a", "--json"]);
    let said: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((refused.code, &said["error"]["code"]), (Some(3), &json!("secret-expired")), "{said:#}");
    assert!(said["error"]["hints"][0].as_str().unwrap().contains("agora env register"), "{said:#}");
    let told = scene.user.agora(&["dispatch", "watch", &question]);
    assert!(told.stdout.trim_end().ends_with(&format!("question.opened {question}")), "nothing was recorded");
    scene.secret("second-value", &[]);
    assert_eq!(scene.answer(&question)["result"]["state"], "finished");
}

#[test]
fn a_plain_directory_is_looked_at_file_by_file() {
    let scene = Scene::new();
    let plain = scene.user.work().join("plain");
    fs::create_dir_all(plain.join("sub")).unwrap();
    fs::write(plain.join("sub/one.txt"), "1").unwrap();
    fs::write(plain.join("two.txt"), "2").unwrap();
    let run =
        ["dispatch", "run", "--subagent", "asker", "--workspace", plain.to_str().unwrap(), "--pause-ok"];
    scene.user.agora(&run).success();
    assert_eq!(scene.stale(), json!([]));
    fs::write(plain.join("sub/one.txt"), "other").unwrap();
    fs::remove_file(plain.join("two.txt")).unwrap();
    let path = fs::canonicalize(&plain).unwrap();
    let files = json!({"what": "source-files", "path": path, "files": ["sub/one.txt", "two.txt"], "more": 0});
    assert_eq!(scene.stale(), json!([files]));
}

/// A scene whose questions have a route that says what to do when something changed.
fn with_policy(policy: &str) -> (Scene, String) {
    let scene = Scene::new();
    scene.user.settings(&format!("[[route]]\nif_stale = \"{policy}\"\n"));
    let question = scene.pause();
    fs::write(scene.repository.join("a.txt"), "two\n").unwrap();
    (scene, question)
}

fn records(scene: &Scene, question: &str, kind: &str) -> Vec<Value> {
    let told = scene.user.agora(&["dispatch", "watch", question, "--json"]).success();
    let told = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    told.filter(|entry| entry["kind"] == kind).map(|entry| entry["data"].clone()).collect()
}

#[test]
fn a_route_that_asks_again_wants_the_change_to_be_confirmed() {
    let (scene, question) = with_policy("ask-again");
    let refused = scene.user.agora(&["answer", &question, "a", "--json"]);
    let said: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((refused.code, &said["error"]["code"]), (Some(2), &json!("confirm-changes")), "{said:#}");
    let hints = said["error"]["hints"].to_string();
    assert!(hints.contains("a.txt") && hints.contains("--despite-changes"), "{hints}");
    assert_eq!(scene.stale()[0]["what"], "source-files", "the question is open still");
    let confirm = ["answer", &question, "a", "--despite-changes", "--follow", "--json"];
    let answered = scene.user.agora(&confirm).json();
    assert_eq!(answered["result"]["state"], "finished");
    assert_eq!(answered["stale"][0]["files"], json!(["a.txt"]));
    let refused = records(&scene, &question, "answer.refused");
    assert_eq!(refused.len(), 1);
    assert_eq!((&refused[0]["answers"], &refused[0]["stale"]), (&json!({"q1": "a"}), &answered["stale"]));
    assert_eq!(records(&scene, &question, "question.answered").len(), 1);
}

#[test]
fn a_route_that_fails_ends_the_thread_and_keeps_the_answer() {
    let (scene, question) = with_policy("fail");
    let refused = scene.user.agora(&["answer", &question, "a", "--despite-changes", "--json"]);
    let said: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((refused.code, &said["error"]["code"]), (Some(2), &json!("question-stale")), "{said:#}");
    let thread = scene.user.agora(&["thread", "show", &question, "--json"]).json();
    assert_eq!((&thread["state"], &thread["failure"]["code"]), (&json!("failed"), &json!("question-stale")));
    assert_eq!(thread["dispatches"][0]["state"], "needs_input", "the dispatch stays what it was");
    assert_eq!(records(&scene, &question, "answer.refused")[0]["answers"], json!({"q1": "a"}));
    let expired = records(&scene, &question, "question.expired");
    assert_eq!(expired[0]["atExpiry"]["stale"][0]["files"], json!(["a.txt"]));
    let late = scene.user.agora(&["answer", &question, "a", "--json"]);
    let said: Value = serde_json::from_str(&late.stdout).unwrap();
    assert_eq!(
        (late.code, &said["error"]["code"]),
        (Some(2), &json!("question-stale")),
        "it did not expire: {said:#}"
    );
    let why = "the question was ended because what it rested on had changed";
    assert!(said["error"]["message"].as_str().unwrap().ends_with(why), "{said:#}");
    let told = scene.user.agora(&["thread", "show", &question]).success();
    assert!(told.contains("ended, after") && !told.contains("expired"), "{told}");
}

#[test]
fn a_policy_is_about_changes_alone() {
    for policy in ["show", "ask-again", "fail"] {
        let scene = Scene::new();
        scene.user.settings(&format!("[[route]]\nif_stale = \"{policy}\"\n"));
        let question = scene.pause();
        assert_eq!(scene.answer(&question)["result"]["state"], "finished", "{policy}");
    }
}
