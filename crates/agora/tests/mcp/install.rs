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
    // Claude Code reads no comments, and nobody reads what does not end.
    for (client, file, written) in [
        ("claude", ".mcp.json", "{\n  // mine\n  \"mcpServers\": {}\n}\n"),
        ("vscode", ".vscode/mcp.json", "{\n  /* mine\n  \"servers\": {}\n}\n"),
        ("gemini", "../home/.gemini/settings.json", "{\"mcpServers\": [],}\n"),
    ] {
        let path = place.cli.work().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, written).unwrap();
        let said = place.cli.run(&["mcp", "install", "--client", client]).failure(2);
        assert!(said.contains("add this by hand"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), written);
    }
}

#[test]
fn a_link_to_nothing_stays_one() {
    let place = Place::new();
    let link = place.cli.work().join(".mcp.json");
    std::os::unix::fs::symlink("elsewhere/mcp.json", &link).unwrap();
    let said = place.cli.run(&["mcp", "install", "--client", "claude"]).failure(2);
    assert!(said.contains("is a link to a file that is not there"), "{said}");
    assert_eq!(fs::read_link(&link).unwrap(), std::path::Path::new("elsewhere/mcp.json"));
    // Once there is something, it is what is written.
    place.cli.write("elsewhere/mcp.json", "{}\n");
    place.cli.run(&["mcp", "install", "--client", "claude"]).success();
    assert!(link.is_symlink() && fs::read_to_string(&link).unwrap().contains("agora"));
}

#[test]
fn comments_stay_where_a_client_reads_them() {
    let place = Place::new();
    let agora = "{\"args\":[\"mcp\"],\"command\":\"agora\"";
    for (client, file, written, grown) in [
        (
            "vscode",
            ".vscode/mcp.json",
            "{\n  // mine\n  \"servers\": {\n    \"other\": {\"command\": \"x\"}, // keep\n  },\n}\n",
            format!(
                "{{\n  // mine\n  \"servers\": {{\n    \"agora\": {agora},\"type\":\"stdio\"}},\n    \"other\": {{\"command\": \"x\"}}, // keep\n  }},\n}}\n"
            ),
        ),
        (
            "gemini",
            "../home/.gemini/settings.json",
            "{ \"theme\": \"dark\" /* \"mcpServers\": {} */ }\n",
            format!(
                "{{\n  \"mcpServers\": {{\n    \"agora\": {agora}}}\n  }}, \"theme\": \"dark\" /* \"mcpServers\": {{}} */ }}\n"
            ),
        ),
        (
            "opencode",
            "opencode.jsonc",
            "// ours\n{\"mcp\": {}}\n",
            "// ours\n{\"mcp\": {\n    \"agora\": {\"command\":[\"agora\",\"mcp\"],\"enabled\":true,\"type\":\"local\"}\n  }}\n".to_owned(),
        ),
    ] {
        let path = place.cli.work().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, written).unwrap();
        let said = place.cli.run(&["mcp", "install", "--client", client]);
        assert!(said.stderr.contains("to undo it, take out of these files what was added"), "{}", said.stderr);
        assert_eq!(fs::read_to_string(&path).unwrap(), grown, "{client}");
        let again = place.cli.run(&["mcp", "install", "--client", client, "--json"]).json();
        assert!(again.as_array().unwrap().iter().all(|file| file["changed"] == false), "{client}: {again}");
    }
    assert!(!place.cli.work().join("opencode.json").exists(), "who has the one does not want the other");
}

#[test]
fn a_file_of_codex_stays_one_that_it_reads() {
    let place = Place::new();
    let elsewhere = place.cli.work().join("codex");
    let file = elsewhere.join("config.toml");
    fs::create_dir(&elsewhere).unwrap();
    let install = |client: &str| {
        let mut command = place.cli.command(&["mcp", "install", "--client", client]);
        agora_testkit::cli::run(command.env("CODEX_HOME", &elsewhere))
    };
    // However it is written, it is there already.
    for same in [
        "[mcp_servers]\nagora = {command = \"agora\", args = [\"mcp\"]}\n",
        "[mcp_servers.\"agora\"]\ncommand = \"agora\"\nargs = [\"mcp\"]\nstartup_timeout_sec = 30\n",
    ] {
        fs::write(&file, same).unwrap();
        assert!(install("codex").stderr.contains("config.toml` has it already"), "{same}");
        assert_eq!(fs::read_to_string(&file).unwrap(), same);
    }
    for (other, said) in [
        ("[mcp_servers.agora]\ncommand = \"mine\"\n", "has another `agora` already"),
        ("notes = \"\"\"\nnot ended\n", "is not plain TOML that can be added to"),
        ("mcp_servers = {other = {command = \"x\"}}\n", "is not plain TOML that can be added to"),
    ] {
        fs::write(&file, other).unwrap();
        let refused = install("codex").failure(2);
        assert!(refused.contains(said) && refused.contains("by hand"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), other, "it was left alone");
    }
    fs::write(&file, "model = \"x\"").unwrap();
    install("codex").success();
    let expected = "model = \"x\"\n\n[mcp_servers.agora]\ncommand = \"agora\"\nargs = [\"mcp\"]\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
}

#[test]
fn what_a_person_changed_is_theirs() {
    let place = Place::new();
    let written = "{\"mcpServers\": {\"agora\": {\"command\": \"mine\"}}}\n";
    place.cli.write(".mcp.json", written);
    let refused = place.cli.run(&["mcp", "install", "--client", "claude"]).failure(2);
    assert!(refused.contains("has another `agora` already"), "{refused}");
    assert_eq!(fs::read_to_string(place.cli.work().join(".mcp.json")).unwrap(), written);

    let skill = place.cli.write(".agents/skills/agora/SKILL.md", "my own words\n");
    let said = place.cli.run(&["mcp", "install", "--client", "opencode"]);
    assert!(said.stderr.contains("SKILL.md` is another than this agora's, and stays"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(skill).unwrap(), "my own words\n");
}

#[test]
fn a_client_that_would_not_find_the_program_is_told_of() {
    let warning = "`agora` is not on the path";
    let place = Place::new();
    assert!(place.cli.run(&["mcp", "install", "--client", "claude"]).stderr.contains(warning));
    let agora = env!("CARGO_BIN_EXE_agora");
    let place = Place { cli: agora_testkit::cli::Cli::new(agora).program("agora", agora.as_ref()) };
    assert!(!place.cli.run(&["mcp", "install", "--client", "claude"]).stderr.contains(warning));
}

#[test]
fn a_workspace_that_is_not_there_is_not_one() {
    let place = Place::new();
    let refused = place.cli.run(&["mcp", "--workspace", "/no/such/directory"]).failure(2);
    assert!(refused.contains("`/no/such/directory` is not a directory"), "{refused}");
}
