//! Logins with refresh tokens that can be used once: the user's own, which nobody touches, and agora's, which only agora renews.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agora_testkit::cli::{Cli, files_below, run};
use agora_testkit::login::{LoginServer, Tokens};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use agora_testkit::terminal::Terminal;
use agora_testkit::watch::Watch;
use serde_json::{Value, json};

fn home(cli: &Cli) -> PathBuf {
    cli.work().parent().unwrap().join("home")
}

fn write(path: &Path, value: &Value) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, value.to_string()).unwrap();
    path.to_owned()
}

/// What the vendors' programs leave in a user's home when the user has logged in.
fn own_logins(cli: &Cli, claude: &Tokens, codex: &Tokens) -> [PathBuf; 2] {
    let claude = json!({"claudeAiOauth": {"accessToken": claude.access, "refreshToken": claude.refresh, "expiresAt": 1}});
    let tokens = json!({"id_token": codex.id, "access_token": codex.access, "refresh_token": codex.refresh});
    let codex = json!({"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": "2020-01-01T00:00:00Z"});
    [
        write(&home(cli).join(".claude/.credentials.json"), &claude),
        write(&home(cli).join(".codex/auth.json"), &codex),
    ]
}

/// A `codex` whose login and whose renewals go to the scripted server, also from inside a dispatch.
fn codex_towards(cli: Cli, codex: &Path, server: &LoginServer) -> Cli {
    let url = server.url();
    let script = format!(
        "#!/bin/sh\nexport CODEX_REFRESH_TOKEN_URL_OVERRIDE={url}/oauth/token\n\
         case $1 in\nlogin) exec '{0}' login --device-auth --experimental_issuer {url} ;;\n*) exec '{0}' \"$@\" ;;\nesac\n",
        codex.display()
    );
    let path = cli.write("bin/codex", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    cli.program("codex", &path)
}

#[test]
fn the_users_own_login_is_not_opened_not_copied_and_not_used_up() {
    let (Some(claude), Some(codex)) = (part::find("AGORA_TEST_CLAUDE"), part::find("AGORA_TEST_CODEX"))
    else {
        return;
    };
    let server = LoginServer::start();
    let model = Model::start_with(|_| Turn::text("Hello."));
    let cli =
        codex_towards(Cli::new(env!("CARGO_BIN_EXE_agora")).program("claude", &claude), &codex, &server);
    let own = [server.log_in(), server.log_in()];
    let files = own_logins(&cli, &own[0], &own[1]);
    let dirs = files.each_ref().map(|file| file.parent().unwrap());
    let watch = Watch::over(&[&files[0], &files[1], dirs[0], dirs[1]]);

    let (url, responses) = (model.url(), format!("{}/v1", model.url()));
    let around = [
        ("ANTHROPIC_API_KEY", "sk-of-the-environment"),
        ("ANTHROPIC_BASE_URL", url.as_str()),
        ("OPENAI_API_KEY", "sk-of-the-environment"),
        ("OPENAI_BASE_URL", responses.as_str()),
    ];
    for arguments in [
        &["init"][..],
        &["doctor"],
        &["auth", "status"],
        &["run", "--agent", "claude", "say hello"],
        &["run", "--agent", "codex", "say hello"],
        &["auth", "claude"],
        &["auth", "codex"],
        &["run", "--agent", "codex", "say hello"],
    ] {
        let ran = run(cli.command(arguments).envs(around));
        assert!(matches!(ran.code, Some(0 | 3)), "{arguments:?}: {ran:?}");
        assert!(arguments[0] != "run" || ran.stdout == "Hello.\n", "{ran:?}");
    }
    assert_eq!(watch.count(), 0, "nobody opened them");
    assert_eq!(server.requests(), Vec::<String>::new(), "nobody asked to renew anything");
    let kept = files_below(&cli.agora_home());
    let holds = |text: &str| {
        kept.iter().any(|(_, bytes)| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    for login in &own {
        assert!(!holds(&login.refresh) && !holds(&login.access));
        assert!(server.renew(&login.refresh).is_some(), "it still works");
        assert!(server.renew(&login.refresh).is_none(), "once");
    }
    // The watch would have told.
    drop(fs::read(&files[0]).unwrap());
    assert!(watch.count() > 0);
}

#[test]
fn codex_logs_in_into_a_home_of_agoras_and_many_dispatches_renew_it_once() {
    let Some(codex) = part::find("AGORA_TEST_CODEX") else { return };
    let server = LoginServer::start();
    let model = Model::start_with(|_| Turn::text("Hello."));
    let cli = codex_towards(Cli::new(env!("CARGO_BIN_EXE_agora")), &codex, &server);
    // What it gets has ended already: it must be renewed before the first dispatch.
    server.let_tokens_live(-10);
    let mut command = cli.command(&["auth", "codex"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let (shown, code) = Terminal::start(command, 100).finish();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("ABCD-1234"), "the person sees the vendor's own words: {shown}");
    assert!(shown.contains("stored: codex logs in with its chatgpt"), "{shown}");
    let own = cli.agora_home().join("codex");
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!home(&cli).join(".codex").exists(), "nothing is in the user's");
    let told = cli.run(&["auth", "status", "--json"]).json();
    assert_eq!((&told[1]["vendor"], &told[1]["stored"]), (&json!("codex"), &json!("chatgpt")));

    server.let_tokens_live(10 * 86_400);
    let config = home(&cli).join(".config/agora");
    fs::create_dir_all(&config).unwrap();
    // What stands for codex here is a script, and the wall shows what a path names or links to, not what a script calls.
    let grant = format!("grant = [\"{}:ro\"]\n", codex.parent().unwrap().display());
    fs::write(config.join("agora.toml"), format!("[target.local]\nmax_concurrent = 4\n{grant}")).unwrap();
    let endpoint = format!("OPENAI_BASE_URL={}/v1", model.url());
    cli.run(&["env", "register", "--name", "default", "--value", &endpoint]).success();
    cli.write("tasks.jsonl", "{\"task\": \"say hello\"}\n".repeat(4));
    let told = cli.run(&["run", "--agent", "codex", "--each", "tasks.jsonl", "--jobs", "4", "--json"]).json();
    for result in told.as_array().unwrap() {
        assert_eq!(
            (&result["auth"], &result["output"]["text"]),
            (&json!("chatgpt"), &json!("Hello.")),
            "{result}"
        );
    }
    // Codex renews what has ended when it starts, and then because it is asked to: each token once, and none by a dispatch.
    let asked = server.requests();
    assert_eq!(
        asked,
        ["exchange", "renew single-use-0-0", "renew single-use-0-1"],
        "four dispatches, and one turn of renewing"
    );
    let sent = model.requests();
    let with = |key: &str| {
        sent.iter()
            .filter(|request| request.headers.get("authorization").is_some_and(|it| it.contains(key)))
            .count()
    };
    let access = read(&own)["tokens"]["access_token"].as_str().unwrap().to_owned();
    assert_eq!(with(&access), sent.len());

    // What renews is in agora's own home and nowhere else, and it still works.
    let refresh = read(&own)["tokens"]["refresh_token"].as_str().unwrap().to_owned();
    let holders: Vec<_> = files_below(&cli.agora_home())
        .into_iter()
        .filter(|(_, bytes)| bytes.windows(refresh.len()).any(|part| part == refresh.as_bytes()))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(holders, [own.join("auth.json")]);
    assert!(server.renew(&refresh).is_some());

    assert_eq!(cli.run(&["auth", "remove", "codex"]).success(), "forgotten\n");
    assert!(!own.exists());
    let said = cli.run(&["run", "--agent", "codex", "x"]).failure(3);
    assert!(said.contains("there is nothing that `codex` could log in with"), "{said}");
}

fn read(home: &Path) -> Value {
    serde_json::from_slice(&fs::read(home.join("auth.json")).unwrap()).unwrap()
}

#[test]
fn the_real_setup_token_runs_in_the_terminal_with_settings_of_its_own() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let server = LoginServer::start();
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora")).program("claude", &claude);
    let files = own_logins(&cli, &server.log_in(), &server.log_in());
    let watch = Watch::over(&[&files[0], files[0].parent().unwrap()]);
    let mut command = cli.command(&["auth", "claude"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command, 200);
    terminal.read_until("running `claude setup-token`");
    // As far as it goes without an account: it shows where to log in, and waits for the code.
    terminal.read_until("oauth/authorize");
    terminal.end_children();
    let (shown, code) = terminal.finish();
    assert!(matches!(code, Some(3)), "{code:?} {shown}");
    assert_eq!(watch.count(), 0, "the user's own login is not looked at");
}
