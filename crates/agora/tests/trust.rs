//! A project's `agora.toml`: what counts of it, and from when on.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;

use agora_testkit::cli::{Cli, run};
use serde_json::json;

fn place() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let command = ["--runtime", "command", "--", "sh", "-c", "echo done"];
    cli.run(&[&["subagent", "register", "--name", "one"], &command[..]].concat()).success();
    fs::create_dir_all(cli.work().join("deep/down")).unwrap();
    cli
}

/// Runs in a directory below that of the file.
fn dispatch(cli: &Cli, target: &str) -> (Option<i32>, String) {
    let mut command = cli.command(&["run", "--agent", "one", "--target", target, "x"]);
    let ran = run(command.current_dir(cli.work().join("deep/down")));
    (ran.code, cli.steady(&ran.stderr))
}

#[test]
fn a_projects_file_counts_as_far_as_it_is_trusted() {
    let cli = place();
    cli.write("agora.toml", "[target.local]\nmax_concurrent = 1\n[target.fast]\nmax_concurrent = 8\n");
    let (code, said) = dispatch(&cli, "fast");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.starts_with(
            "warning: of `[ROOT]/work/agora.toml` these keys are ignored, it is not trusted: target.fast.max_concurrent; `agora trust` lets them count\n\
             error: there is no target `fast`\n"
        ),
        "{said}"
    );

    let ran = cli.run(&["trust", "deep"]);
    assert_eq!(cli.steady(&ran.stdout), "trusted: [ROOT]/work/agora.toml\n");
    insta::assert_snapshot!(ran.stderr, @r"
    these keys of it count now: target.fast.max_concurrent
    hint: `agora trust --revoke` takes it back; a change of the file does too
    ");
    let (code, said) = dispatch(&cli, "fast");
    assert!(code == Some(0) && !said.contains("ignored"), "{said}");
    let listed = cli.run(&["trust", "--list", "--json"]).json();
    assert_eq!(listed, json!([{"file": cli.work().join("agora.toml"), "state": "trusted"}]));

    // Another word, and it is not what was trusted.
    cli.write("agora.toml", "[target.fast]\nmax_concurrent = 9\n");
    let (code, said) = dispatch(&cli, "fast");
    assert_eq!(code, Some(2));
    assert!(
        said.contains(
            "these keys are ignored, it was changed after you trusted it: target.fast.max_concurrent"
        ),
        "{said}"
    );
    assert_eq!(
        cli.steady(&cli.run(&["trust", "--list"]).success()),
        "STATE    FILE\nchanged  [ROOT]/work/agora.toml\n"
    );
    assert!(cli.run(&["trust", "--revoke"]).success().starts_with("not trusted any more: "));
    assert!(cli.run(&["trust", "--revoke"]).success().starts_with("it was not trusted: "));
    assert_eq!(cli.run(&["trust", "--list", "--json"]).json(), json!([]));
}

#[test]
fn what_runs_by_itself_is_carried_with_the_same_settings() {
    let cli = place();
    cli.write("agora.toml", "[target.fast]\nmax_concurrent = 8\n");
    let _ = cli.run(&["trust"]).success();
    let ran = cli.run(&["run", "--agent", "one", "--target", "fast", "--detach", "x"]);
    let id = ran.success().trim().to_owned();
    let watched = cli.run(&["dispatch", "watch", &id]).success();
    assert!(watched.contains("finished"), "{watched}");
}

#[test]
fn a_file_that_cannot_be_used_is_not_trusted() {
    let cli = place();
    let said = cli.run(&["trust"]).failure(2);
    assert_eq!(
        cli.steady(&said),
        "error: there is no `agora.toml` in `[ROOT]/work` nor above it\n\
         hint: name the project with `agora trust DIR`; your own settings need no trust\n"
    );
    cli.write("agora.toml", "[target.local]\nmax_concurent = 1\n");
    let said = cli.run(&["trust"]).failure(2);
    assert!(said.contains("line 2: unknown field `max_concurent`"), "{said}");
    assert_eq!(cli.run(&["trust", "--list", "--json"]).json(), json!([]));
    // Misspelt or not, without trust it does not count, and does not stand in the way.
    let (code, said) = dispatch(&cli, "local");
    assert!(code == Some(0) && said.contains("target.local.max_concurent"), "{said}");
    cli.write("agora.toml", "[");
    let (code, said) = dispatch(&cli, "local");
    assert!(code == Some(2) && said.contains("/work/agora.toml") && said.contains("line 1"), "{said}");
    assert!(
        said.contains("hint: mend it, or run it elsewhere; all of it counts only after `agora trust`"),
        "{said}"
    );
    // What runs nothing only says so.
    for words in [&["ls"][..], &["inbox"], &["explain", "one"], &["explain", "--sandbox"], &["doctor"]] {
        let ran = cli.run(words);
        assert!(!ran.stderr.contains("error:"), "{words:?}: {}", ran.stderr);
    }
    let ran = cli.run(&["ls"]);
    assert!(ran.code == Some(0) && ran.stderr.starts_with("warning: `"), "{}", ran.stderr);
    assert!(ran.stderr.contains("/work/agora.toml` is ignored: line 1"), "{}", ran.stderr);
}

#[test]
fn another_users_file_is_never_used() {
    if !rustix::process::geteuid().is_root() {
        return agora_testkit::part::skipped("it takes root to give a file away");
    }
    let cli = place();
    cli.write("agora.toml", "[target.local]\nmax_concurrent = 1\n");
    std::os::unix::fs::chown(cli.work().join("agora.toml"), Some(65534), None).unwrap();
    let (code, said) = dispatch(&cli, "local");
    let ignored = "/work/agora.toml` is ignored: it belongs to another user (uid 65534), and is never used";
    assert!(code == Some(0) && said.contains(ignored), "{said}");
    assert!(
        cli.run(&["trust"]).failure(2).contains("it belongs to another user (uid 65534), and is never used")
    );
}

#[test]
fn the_users_own_file_needs_no_trust() {
    let cli = place();
    let config = cli.work().parent().unwrap().join("home/.config/agora");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("agora.toml"), "[target.fast]\nmax_concurrent = 8\n").unwrap();
    let (code, said) = dispatch(&cli, "fast");
    assert!(code == Some(0) && !said.contains("ignored"), "{said}");
    // Also when one stands beside it.
    let ran = run(cli.command(&["run", "--agent", "one", "--target", "fast", "x"]).current_dir(&config));
    assert!(ran.code == Some(0) && !ran.stderr.contains("ignored"), "{}", ran.stderr);
}
