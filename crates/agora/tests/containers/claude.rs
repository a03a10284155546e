//! The real Claude Code in an image that was made from the one of this machine, against a scripted model outside of the container.

use std::path::Path;

use agora_testkit::cli::{Cli, run};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;

use super::place::{DOCKER, PODMAN, socket};

/// What a key looks like that nobody refuses for its form.
const KEY: &str = "sk-test-0123456789";

fn works_in_an_image(socket: &Path) {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora")).program("claude", &claude);
    let dir = cli.work().parent().unwrap().join("home/.config/agora");
    std::fs::create_dir_all(&dir).unwrap();
    let target = format!(
        "[target.box]\ncompute = \"docker\"\nimage = \"agora/claude:test\"\nsocket = \"{}\"\n",
        socket.display()
    );
    std::fs::write(dir.join("agora.toml"), target).unwrap();
    cli.run(&["image", "build", "--with", "claude,tools", "--target", "box"]).success();
    let Some(machine) = gateway(&cli) else {
        part::skipped("containers of this daemon have no network, and the model is outside");
        return;
    };
    let model = Model::start_for_others(vec![Turn::shell("echo hello > made.txt"), Turn::text("All done.")]);
    let endpoint = format!("ANTHROPIC_BASE_URL=http://{machine}:{}", model.port());
    let secret = "ANTHROPIC_API_KEY=env:KEY";
    let register = ["env", "register", "--name", "default", "--value", &endpoint, "--secret", secret];
    assert_eq!(run(cli.command(&register).env("KEY", KEY)).code, Some(0));
    cli.run(&["subagent", "register", "--name", "planner", "--prompt-template", "Task: {{task}}"]).success();
    let dispatch =
        ["dispatch", "run", "--target", "box", "--subagent", "planner", "--prompt", "make it", "--json"];
    let result = cli.run(&dispatch).json();
    assert_eq!(result["output"]["text"], "All done.", "{result}");
    assert_eq!(result["patch"]["files"], 1, "{result}");
    assert_eq!(result["isolation"]["container"], true, "{result}");
    assert_eq!(result["isolation"]["level"], "landlock", "{result}");
    assert_eq!(result["warnings"], serde_json::json!([]), "{result}");
}

/// Asks a container which address the machine has for it.
fn gateway(cli: &Cli) -> Option<String> {
    let script =
        "while read -r name to gateway rest; do [ $to = 00000000 ] && echo $gateway; done < /proc/net/route";
    let register = ["subagent", "register", "--name", "route", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", script]].concat()).success();
    let run = ["dispatch", "run", "--target", "box", "--subagent", "route", "--json"];
    let result: serde_json::Value = serde_json::from_str(&cli.run(&run).stdout).unwrap();
    let digits = result["output"]["text"].as_str().unwrap().trim().to_owned();
    let number = u32::from_str_radix(&digits, 16).ok()?;
    Some(std::net::Ipv4Addr::from(number.to_le_bytes()).to_string())
}

#[test]
fn docker_claude_works_in_an_image() {
    if let Some(socket) = socket(DOCKER) {
        works_in_an_image(&socket);
    }
}

#[test]
fn podman_claude_works_in_an_image() {
    if let Some(socket) = socket(PODMAN) {
        works_in_an_image(&socket);
    }
}
