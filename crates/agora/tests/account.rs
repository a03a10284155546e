//! An ordinary account, with its tools under its home and its keys beside them: the real Claude Code works there, and finds no key.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]
#![expect(clippy::disallowed_methods, reason = "the account is made, and entered, by other programs")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use agora_testkit::cli::{Cli, Ran, run};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part::{self, skipped};
use serde_json::Value;

/// A user of no importance.
const USER: u32 = 60_124;
const CANARY: &str = "canary-7f3a";
/// What a home has that no agent may see.
const KEYS: [&str; 22] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".azure/msal_token_cache.json",
    ".config/gcloud/credentials.db",
    ".config/hub",
    ".config/git/credentials",
    ".config/op/config",
    ".git-credentials",
    ".pypirc",
    ".password-store/bank.gpg",
    ".local/share/keyrings/login.keyring",
    ".claude.json",
    ".config/gh/hosts.yml",
    ".netrc",
    ".npmrc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".docker/config.json",
    ".kube/config",
    ".gnupg/secring.gpg",
    ".claude/.credentials.json",
    ".codex/auth.json",
];

/// Some of them are kept elsewhere, and linked to.
const LINKED: [(&str, &str); 3] =
    [(".ssh", "dotfiles/ssh"), (".npmrc", "dotfiles/npmrc"), (".config/gh", "dotfiles/gh")];

struct Account {
    cli: Cli,
    home: PathBuf,
}

/// Copies by links: a toolchain has a gigabyte.
fn link(from: &Path, to: &Path) -> bool {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    Command::new("cp").arg("-alL").args([from, to]).status().is_ok_and(|status| status.success())
        || Command::new("cp").arg("-aL").args([from, to]).status().is_ok_and(|status| status.success())
}

fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

impl Account {
    fn new(claude: &Path, model: &Model) -> Option<Self> {
        let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
        let root = cli.work().parent().unwrap().to_owned();
        let home = root.join("home");
        // As the vendor's installer lays it.
        let version = home.join(".local/share/claude/versions/2");
        link(claude, &version);
        fs::create_dir_all(home.join(".local/bin")).unwrap();
        symlink(&version, home.join(".local/bin/claude")).unwrap();
        let node = which("node")?;
        link(&node, &home.join(".nvm/versions/node/v20/bin/node"));
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
        let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).ok()?.trim_end());
        for part in ["bin/cargo", "bin/rustc", "lib"] {
            link(&sysroot.join(part), &home.join(".rustup/toolchains/tool").join(part));
        }
        fs::write(home.join(".rustup/settings.toml"), "version = \"12\"\ndefault_toolchain = \"tool\"\n")
            .unwrap();
        let rustup = which("rustup")?;
        link(&rustup, &home.join(".cargo/bin/rustup"));
        symlink("rustup", home.join(".cargo/bin/cargo")).unwrap();
        symlink("rustup", home.join(".cargo/bin/rustc")).unwrap();
        let python = home.join(".local/share/uv/python/cpython/bin/python3");
        link(&fs::canonicalize("/usr/bin/python3").ok()?, &python);
        for (link, target) in LINKED {
            let (link, target) = (home.join(link), home.join(target));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            // A link to a file that is not there yet is written through.
            if !link.ends_with(".npmrc") {
                fs::create_dir(&target).unwrap();
            }
            symlink(target, link).unwrap();
        }
        for key in KEYS {
            let path = home.join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, CANARY).unwrap();
        }
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        give(&root);
        let account = Self { cli, home };
        let url = format!("ANTHROPIC_BASE_URL={}", model.url());
        let env = [
            "env",
            "register",
            "--name",
            "default",
            "--value",
            &url,
            "--secret",
            "ANTHROPIC_API_KEY=env:KEY",
        ];
        assert_eq!(account.run(&env).code, Some(0));
        Some(account)
    }

    fn path(&self) -> String {
        let below = [".local/bin", ".nvm/versions/node/v20/bin", ".cargo/bin"].map(|dir| self.home.join(dir));
        format!("{}:{}:{}:/usr/bin:/bin", below[0].display(), below[1].display(), below[2].display())
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let prepared = self.cli.command(arguments);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            let (user, group) = (format!("--reuid={USER}"), format!("--regid={USER}"));
            command
                .args([&user, &group, "--clear-groups"])
                .arg(prepared.get_program())
                .args(prepared.get_args());
            command
        } else {
            let mut command = Command::new(prepared.get_program());
            command.args(prepared.get_args());
            command
        };
        command.env_clear().envs(prepared.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", self.path()).env("KEY", "sk-test-0123456789").env("A_CANARY", CANARY);
        command.current_dir(self.cli.work());
        run(&mut command)
    }
}

fn give(path: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let about = fs::symlink_metadata(path).unwrap();
    // What is linked elsewhere too is somebody else's to own, and everybody's to read.
    if about.is_dir() || std::os::unix::fs::MetadataExt::nlink(&about) == 1 {
        lchown(path, Some(USER), Some(USER)).unwrap();
    }
    if about.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

const SETUP: &str = "mkdir -p .venv/bin; ln -s $HOME/.local/share/uv/python/cpython/bin/python3 .venv/bin/python; \
                     printf 'home = %s\\n' $HOME/.local/share/uv/python/cpython/bin > .venv/pyvenv.cfg\n";

#[test]
fn its_tools_work_inside_and_its_keys_are_out_of_reach() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    // Whatever can be read anywhere, and what other processes are and hold.
    let hunt = format!(
        "echo {CANARY} > control; \
         grep -rsl {CANARY} control \"$HOME\" HUNTED /proc/[0-9]*/environ > hunted.txt; ls /proc > processes.txt; true"
    );
    let work = "node -v && cargo test --offline 2>&1 | grep 'test result' && .venv/bin/python -c 'print(\"py\", 6 * 7)'";
    let build = |root: &Path| hunt.replace("HUNTED", &root.display().to_string());
    let hunted = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let (asked, mut turn) = (std::sync::Arc::clone(&hunted), 0);
    let model = Model::start_with(move |_| {
        turn += 1;
        match turn {
            1 => Turn::shell(work),
            2 => Turn::shell(asked.get().unwrap().clone()),
            _ => Turn::text("All done."),
        }
    });
    let Some(account) = Account::new(&claude, &model) else {
        return skipped("node, rustup or python3 is missing");
    };
    let root = account.cli.work().parent().unwrap().to_owned();
    hunted.set(build(&root)).unwrap();
    let files = [
        ("style/Cargo.toml", "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("style/src/lib.rs", "#[test]\nfn holds() { assert_eq!(6 * 7, 42); }\n"),
        ("style/agora-setup.sh", SETUP),
    ];
    for (path, content) in files {
        account.cli.write(path, content);
    }
    // Another dispatch with something in its workspace, and a ledger and a secret store that hold more.
    for arguments in [
        &["capability", "register", "--name", "style", "--from", "style"][..],
        &[
            "subagent",
            "register",
            "--name",
            "other",
            "--runtime",
            "command",
            "--",
            "sh",
            "-c",
            "echo canary-7f3a > secret",
        ],
        &[
            "subagent",
            "register",
            "--name",
            "fixer",
            "--capability",
            "style",
            "--prompt-template",
            "{{task}}",
        ],
        &["dispatch", "run", "--subagent", "other"],
    ] {
        let ran = account.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    }
    // On a repository of the user's, with what could be a secret in it.
    account.cli.write("project/a.txt", "a\n");
    for secret in ["project/.env", "project/build/.env", "project/id_rsa"] {
        account.cli.write(secret, CANARY);
    }
    give(&account.cli.work());
    let words =
        ["dispatch", "run", "--subagent", "fixer", "--workspace", "project", "--prompt", "work", "--json"];
    let ran = account.run(&words);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["state"], "finished", "{}{}", ran.stdout, ran.stderr);
    assert_eq!(result["isolation"]["level"], "namespaces", "{}", result["isolation"]);
    let requests = model.requests();
    let worked = &requests[1];
    for expected in ["v20.", "test result: ok. 1 passed", "py 42"] {
        assert!(worked.holds(expected), "{expected} is missing: {worked:?}");
    }
    // What it found is in its patch, with the one that it put there itself.
    let id = result["dispatchId"].as_str().unwrap();
    let patch = account.run(&["logs", id, "--part", "patch"]).stdout;
    let found: Vec<&str> = patch.lines().filter_map(|line| line.strip_prefix('+')).collect();
    assert!(found.contains(&"control"), "{patch}");
    let reached = found.iter().filter(|line| {
        let path = Path::new(line);
        line.ends_with("/environ")
            || ["/.env", "/id_rsa"].iter().any(|end| line.ends_with(end))
            || path.starts_with(account.home.join("dotfiles"))
            || KEYS.iter().any(|key| path.ends_with(key))
            || path.starts_with(root.join("agora"))
    });
    assert_eq!(reached.collect::<Vec<_>>(), Vec::<&&str>::new(), "{patch}");
    let processes = found.iter().filter(|line| line.parse::<u32>().is_ok()).count();
    assert!((1..40).contains(&processes), "it sees {processes} processes");
}
