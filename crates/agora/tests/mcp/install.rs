//! `agora mcp install`: one entry more in a client's own file, and nothing else changed.

use std::fs;

use serde_json::{Value, json};

use crate::support::Place;

#[test]
fn each_client_has_its_entry_where_it_looks_for_it() {
    let place = Place::new();
    let home = place.cli.work().parent().unwrap().join("home");
    let work = place.cli.work();
    let read =
        |path: &std::path::Path| serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap();
    place.cli.write(".mcp.json", "{\"mcpServers\": {\"other\": {\"command\": \"x\"}}}\n");
    for client in ["claude", "codex", "gemini", "opencode", "vscode"] {
        let dry = place.cli.run(&["mcp", "install", "--client", client, "--dry-run"]);
        assert!(dry.stderr.contains("would add to"), "{client}: {}", dry.stderr);
        place.cli.run(&["mcp", "install", "--client", client]).success();
        let again = place.cli.run(&["mcp", "install", "--client", client, "--json"]).json();
        assert!(again.as_array().unwrap().iter().all(|file| file["changed"] == false), "{client}: {again}");
    }
    let plain = json!({"command": "agora", "args": ["mcp"]});
    let claude = read(&work.join(".mcp.json"));
    assert_eq!(
        (&claude["mcpServers"]["agora"], &claude["mcpServers"]["other"]),
        (&plain, &json!({"command": "x"}))
    );
    assert_eq!(read(&home.join(".gemini/settings.json"))["mcpServers"]["agora"], plain);
    assert_eq!(read(&work.join("opencode.json"))["mcp"]["agora"]["command"], json!(["agora", "mcp"]));
    assert_eq!(read(&work.join(".vscode/mcp.json"))["servers"]["agora"]["command"], "agora");
    let codex = fs::read_to_string(home.join(".codex/config.toml")).unwrap();
    assert_eq!(codex, "[mcp_servers.agora]\ncommand = \"agora\"\nargs = [\"mcp\"]\n");
    let skill = fs::read_to_string(work.join(".agents/skills/agora/SKILL.md")).unwrap();
    assert!(skill.contains("Questions are for the user"));
}

#[test]
fn a_file_that_cannot_be_changed_safely_is_left_alone() {
    let place = Place::new();
    let written = "{\n  // mine\n  \"servers\": {}\n}\n";
    place.cli.write(".vscode/mcp.json", written);
    let said = place.cli.run(&["mcp", "install", "--client", "vscode"]).failure(2);
    assert!(said.contains("add this by hand"), "{said}");
    assert_eq!(fs::read_to_string(place.cli.work().join(".vscode/mcp.json")).unwrap(), written);
}
