//! A repository in a container: the agent works on a copy of it, and its commits come home.

use std::path::Path;
use std::process::Command;

use agora_testkit::cli::Cli;

use super::command::configure;
use super::place::{DOCKER, PODMAN, socket};

fn git(cli: &Cli, arguments: &[&str]) -> String {
    let mut command: Command = agora_testkit::cli::command("git");
    // Whoever has told git nothing about themselves can dispatch all the same.
    let me = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    command.args(me).args(arguments).current_dir(cli.work()).env_clear().env("PATH", "/usr/bin:/bin");
    agora_testkit::cli::run(&mut command).success()
}

const AGENT: &str = "set -e; cat README; git log --oneline | wc -l; git status --short
echo more >> README; git add README; git commit -qm 'the agent says more'; echo new > new.txt";

fn the_work_on_a_repository_comes_home(socket: &Path) {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    configure(&cli, socket, "");
    cli.run(&["image", "build", "--with", "tools,git", "--target", "box"]).success();
    git(&cli, &["init", "-q", "-b", "main"]);
    cli.write("README", "first\n");
    cli.write("src/tool.sh", "#!/bin/sh\n");
    git(&cli, &["add", "."]);
    git(&cli, &["commit", "-qm", "one"]);
    cli.write("README", "second\n");
    let before = git(&cli, &["status", "--short"]);
    let register = ["subagent", "register", "--name", "works", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", AGENT]].concat()).success();
    let run = ["dispatch", "run", "--target", "box", "--subagent", "works", "--workspace", ".", "--json"];
    let result = cli.run(&run).json();
    assert_eq!(result["state"], "finished", "{result}");
    assert_eq!(result["output"]["text"], "second\n1\n M README\n", "it sees what the user sees");
    assert_eq!(result["workspace"]["via"], "copy", "{result}");
    let home = result["patch"]["gitRef"].as_str().unwrap();
    assert_eq!(git(&cli, &["log", "--format=%s", &format!("main..{home}")]).lines().count(), 2);
    assert_eq!(git(&cli, &["show", &format!("{home}:new.txt")]), "new\n");
    assert_eq!(git(&cli, &["show", &format!("{home}:README")]), "second\nmore\n");
    assert_eq!(git(&cli, &["status", "--short"]), before, "nothing of the user's was touched");
    let id = result["dispatchId"].as_str().unwrap();
    let second = cli.run(&["continue", id, "--json"]).json();
    assert_eq!(second["state"], "finished", "{second}");
    assert_eq!(git(&cli, &["show", &format!("{home}:README")]), "second\nmore\nmore\n");
}

#[test]
fn docker_the_work_on_a_repository_comes_home() {
    let Some(socket) = socket(DOCKER) else { return };
    the_work_on_a_repository_comes_home(&socket);
}

#[test]
fn podman_the_work_on_a_repository_comes_home() {
    let Some(socket) = socket(PODMAN) else { return };
    the_work_on_a_repository_comes_home(&socket);
}
