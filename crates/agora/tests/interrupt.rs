//! Ctrl-C, as the shell sends it.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::process::Stdio;

use agora_testkit::cli::{Cli, Ran};
use rustix::process::{Pid, Signal, kill_process};

/// Runs an agent that works and then waits for ever, and interrupts the command once the agent is at work.
fn interrupted(cli: &Cli, more: &[&str]) -> Ran {
    let mark = cli.work().join("at-work");
    cli.grant_work();
    let script = format!("echo work > work.txt; touch {}; sleep 1000", mark.display());
    let command = ["--runtime", "command", "--", "sh", "-c", &script];
    cli.run(&[&["subagent", "register", "--name", "slow"], &command[..]].concat()).success();
    let arguments = [&["dispatch", "run", "--subagent", "slow"], more].concat();
    let mut command = cli.command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !mark.exists() {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    std::fs::remove_file(mark).unwrap();
    ran
}

#[test]
fn once_cancels_and_tells_what_is_left() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let ran = interrupted(&cli, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(130), ""));
    insta::assert_snapshot!(cli.steady(&ran.stderr), @r#"
    cancelling; Ctrl-C again leaves at once, and the next command takes it in
    cancelled in [SPAN], 1 file changed (+1 -0)
    d_[ID]
    hint: `agora continue d_[ID]` goes on from what was kept
    "#);
    let ran = interrupted(&cli, &["--json"]);
    assert_eq!(ran.code, Some(130));
    let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&result["state"], &result["exitCode"]), (&"cancelled".into(), &1.into()));
    assert_eq!((&result["patch"]["files"], &result["workspaceSaved"]), (&1.into(), &true.into()));
}
