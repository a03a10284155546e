//! A secret's value goes into the encrypted store and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agora_testkit::cli::{Cli, Ran, files_below, run};
use serde_json::json;

const VALUE: &str = "correct-horse-battery-staple";

fn cli() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_agora"))
}

#[track_caller]
fn shows_nothing(cli: &Cli, ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(VALUE) && !text.contains("horse"), "{text}");
    }
    for (path, content) in files_below(&cli.agora_home()) {
        let found = content.windows(5).any(|window| window == b"horse");
        assert!(!found, "{} shows the value", path.display());
    }
}

#[test]
fn every_way_in_keeps_the_value_out_of_everything_that_can_be_read() {
    let cli = cli();
    cli.write("secret.txt", format!("{VALUE}\n"));
    let register = ["env", "register", "--name", "e", "--json", "--secret"];
    let by_env = {
        let mut command = cli.command(&[&register[..], &["K=env:MY_KEY"]].concat());
        run(command.env("MY_KEY", VALUE))
    };
    let by_file = cli.run(&[&register[..], &["K=file:secret.txt"]].concat());
    let by_input = cli.run_with_input(&[&register[..], &["K=stdin"]].concat(), VALUE);
    let inline = cli.run(&[&register[..], &[&format!("K=inline:{VALUE}")]].concat());
    assert!(
        inline.stderr.contains("warning: ") && inline.stderr.contains("shell's history"),
        "{}",
        inline.stderr
    );
    for ran in [&by_env, &by_file, &by_input, &inline] {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        shows_nothing(&cli, ran);
    }
    assert_eq!(by_env.json()["change"], "new");
    for ran in [by_file, by_input, inline] {
        assert_eq!(ran.json()["change"], "unchanged", "the hash is of the reference, not of the value");
    }
    let env = cli.run(&["env", "get", "e", "--json"]).json();
    assert_eq!(env["secrets"], json!({"K": "local:env/default/e/K"}));
    let mode = |path: &str| fs::metadata(cli.agora_home().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(""), mode("keys"), mode("keys/secrets.key"), mode("secrets")),
        (0o700, 0o700, 0o600, 0o700)
    );
}

#[test]
fn a_value_on_the_command_line_is_warned_of_wherever_it_is_taken() {
    let cli = cli();
    let secret = format!("ANTHROPIC_API_KEY=inline:{VALUE}");
    cli.run(&["subagent", "register", "--name", "s", "--runtime", "command", "--", "true"]).success();
    for words in [&["auth", "claude"][..], &["dispatch", "run", "--subagent", "s"]] {
        let ran = cli.run(&[words, &["--secret", &secret]].concat());
        assert!(ran.stderr.contains("shell's history"), "{words:?}: {}", ran.stderr);
        ran.success();
    }
}

#[test]
fn another_value_rotates_and_the_bundle_stays_the_same() {
    let cli = cli();
    let register = |value: &str| {
        let mut command = cli.command(&["env", "register", "--name", "e", "--secret", "K=env:MY_KEY"]);
        run(command.env("MY_KEY", value))
    };
    let first = register("first-value");
    assert!(first.stderr.contains("stored the secret `K`"), "{}", first.stderr);
    let again = register("first-value");
    assert!(again.stderr.contains("has this value already"), "{}", again.stderr);
    let rotated = register("second-value");
    assert!(rotated.stderr.contains("rotated the secret `K`"), "{}", rotated.stderr);
    assert_eq!(first.success(), rotated.success());
}

#[test]
fn what_is_wrong_with_a_secret_is_said_without_it() {
    let cli = cli();
    let said = |secret: &str| {
        let ran = cli.run(&["env", "register", "--name", "e", "--secret", secret]);
        assert!(!ran.stderr.contains(VALUE), "{}", ran.stderr);
        ran.failure(2)
    };
    assert!(
        said(&format!("K={VALUE}")).contains("hint: to store the value of a variable: `--secret K=env:K`")
    );
    assert!(said(&format!("{VALUE}=K")).contains("not a variable's name"));
    assert!(said("K=env:NOT_SET").contains("the variable `NOT_SET` is not set"));
    assert!(said("K=file:nowhere").contains("`nowhere` cannot be read"));
    assert!(said("K").contains("standard input is not a terminal"));
    assert!(said("K=inline:12345").contains("--allow-short-secret"));
    assert!(said("K=local:../x").contains("local secret's name"));
    assert!(said("AGORA_X=cmd:x").contains("not a switch"));
    let forced = ["env", "register", "--name", "e", "--secret", "K=inline:12345", "--allow-short-secret"];
    cli.run(&forced).success();
    fs::set_permissions(cli.agora_home().join("keys/secrets.key"), fs::Permissions::from_mode(0o644))
        .unwrap();
    let exposed =
        cli.run_with_input(&["env", "register", "--name", "e", "--secret", "K=stdin"], VALUE).failure(3);
    assert!(
        exposed.contains("may be read by others (mode 644)") && exposed.contains("chmod 600"),
        "{exposed}"
    );
}
