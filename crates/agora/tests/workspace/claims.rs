//! What a repository says of itself is whoever made it speaking: nothing that it names is shown unless git would have put it there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use agora_testkit::cli::{Ran, run};
use agora_testkit::part::skipped;
use serde_json::Value;

use crate::support::{Mode, User, said};

const CANARY: &str = "canary-77c1";

/// What a shell script makes of a repository that it stands in, and whether agora refuses that, or leaves it out.
struct Claim {
    make: &'static str,
    is_refused: bool,
}

const fn refused(make: &'static str) -> Claim {
    Claim { make, is_refused: true }
}

/// Nothing of it is wrong, and still it leads nowhere.
const fn passed_over(make: &'static str) -> Claim {
    Claim { make, is_refused: false }
}

const CLAIMS: [Claim; 27] = [
    // Objects elsewhere.
    refused("echo $HOME/.ssh > .git/objects/info/alternates"),
    refused("echo $AGORA_HOME > .git/objects/info/alternates"),
    refused("echo $HOME/papers > .git/objects/info/alternates"),
    refused("echo $HOME/papers/objects > .git/objects/info/alternates"),
    refused("echo $HOME/papers/mixed/objects > .git/objects/info/alternates"),
    refused("echo $HOME/.password-store/.git/objects > .git/objects/info/alternates"),
    refused("echo $AGORA_HOME/repositories/x/objects > .git/objects/info/alternates"),
    refused("ln -s $HOME/.ssh link; echo $PWD/link > .git/objects/info/alternates"),
    refused("printf '# ours\\n../../../../../../../../..%s\\n' $HOME/.ssh > .git/objects/info/alternates"),
    refused(
        "git clone -qs . mid; echo $HOME/.ssh >> mid/.git/objects/info/alternates; echo $PWD/mid/.git/objects > .git/objects/info/alternates",
    ),
    refused("rm -rf .git/objects; ln -s $HOME/.ssh .git/objects"),
    refused("rm -rf .git/objects; ln -s $HOME/papers/objects .git/objects"),
    // The repository itself elsewhere.
    refused("rm -rf .git; echo gitdir: $PRIVATE/.git > .git"),
    refused("rm -rf .git; ln -s $PRIVATE/.git .git"),
    refused("rm -rf .git; echo gitdir: $HOME/.password-store/.git > .git"),
    refused("echo $PRIVATE/.git > .git/commondir"),
    refused("mv .git fake; echo gitdir: fake > .git; echo $PRIVATE/.git > fake/commondir"),
    refused(
        "mkdir -p .git/worktrees; cp -r .git/HEAD .git/index .git/worktrees/; mv .git real; echo gitdir: real/worktrees > .git; \
        echo $PRIVATE/.git > real/worktrees/commondir",
    ),
    refused(
        "rm -rf .git; mkdir -p in/objects in/refs; echo ref: refs/heads/main > in/HEAD; cp $HOME/.ssh/id in/objects/.env; echo gitdir: in > .git",
    ),
    // Links where files are copied from.
    refused("ln -sf $HOME/.ssh/id .git/HEAD"),
    refused("ln -sf $HOME/.ssh/id .git/packed-refs"),
    refused("ln -sf $HOME/.ssh/id .git/shallow"),
    refused("ln -sf $HOME/.ssh/id .git/index"),
    refused("rm -rf .git/refs; ln -s $HOME/.ssh .git/refs"),
    passed_over("rm -rf .git/info; ln -s $HOME/.ssh .git/info"),
    passed_over("ln -s $HOME/.ssh/id .git/MERGE_MSG; ln -s $HOME/.ssh/id .git/refs/heads/key"),
    passed_over(
        "ln -s $HOME/.ssh .git/rebase-merge; mkdir .git/rebase-apply; ln -s $HOME/.ssh/id .git/rebase-apply/next",
    ),
];

struct Machine {
    user: User,
    home: PathBuf,
    private: PathBuf,
}

impl Machine {
    /// Makes a machine with a canary in everything that is nobody's to see.
    fn new() -> Self {
        let user = User::new(Mode::Layers);
        let home = user.cli.work().parent().unwrap().join("home");
        for key in [".ssh/id", ".ssh/exclude", ".ssh/packs", "papers/objects/letter", "papers/HEAD"] {
            user.put(&home, key, CANARY);
        }
        let private = user.repository("private");
        user.put(&private, "private.txt", CANARY);
        user.git(&private, &["add", "-A"]);
        user.git(&private, &["commit", "--quiet", "-m", CANARY]);
        // A store with something in it that is none of git's.
        let copy = |to: &Path| user.git(&private, &["clone", "--quiet", "--bare", ".", to.to_str().unwrap()]);
        copy(&home.join("papers/mixed"));
        user.put(&home, "papers/mixed/objects/pack/letter", CANARY);
        copy(&home.join(".password-store/.git"));
        copy(&user.home().join("repositories/x"));
        user.put(user.home(), "keys.txt", CANARY);
        Self { user, home, private }
    }

    fn claim(&self, dir: &Path, make: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-ec", make]).current_dir(dir);
        shell.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.home).env("PRIVATE", &self.private);
        run(shell.env("AGORA_HOME", self.user.home())).success();
    }

    /// Registers an agent that looks everywhere, and says what it found.
    fn register(&self) {
        let top = self.user.cli.work().parent().unwrap().to_owned();
        let pattern = CANARY.replace('7', "[7]");
        let script = format!(
            "grep -rsla '{pattern}' . {top}; for dir in . node_modules/evil; do \
                git -C $dir log --all --format=%B 2>&1 | grep -a '{pattern}'; \
                git -C $dir cat-file --batch-all-objects --batch 2>/dev/null | grep -ao '{pattern}'; done; true",
            top = top.display()
        );
        self.user.agent("w", &script);
    }

    fn work_on(&self, dir: &Path) -> Ran {
        self.user.agora(&[
            "dispatch",
            "run",
            "--subagent",
            "w",
            "--workspace",
            dir.to_str().unwrap(),
            "--json",
        ])
    }
}

/// Returns what the agent found of what it may not see.
fn found(ran: &Ran) -> Vec<String> {
    let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    result["output"]["text"].as_str().unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn nothing_is_shown_because_a_repository_says_so() {
    let machine = Machine::new();
    machine.register();
    let mut wrong = Vec::new();
    for (number, Claim { make, is_refused }) in CLAIMS.iter().enumerate() {
        let dir = machine.user.repository(&format!("main-{number}"));
        machine.claim(&dir, make);
        let ran = machine.work_on(&dir);
        let is_right =
            if *is_refused { ran.code == Some(2) } else { ran.code == Some(0) && found(&ran) == [""; 0] };
        if ran.stdout.contains(CANARY) || ran.stderr.contains(CANARY) || !is_right {
            wrong.push((make, ran.code, found(&ran), ran.stdout, ran.stderr));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_nested_repository_that_says_so_is_left_out_and_the_rest_is_worked_on() {
    let machine = Machine::new();
    machine.register();
    let mut wrong = Vec::new();
    for (number, Claim { make, is_refused }) in CLAIMS.iter().enumerate() {
        let dir = machine.user.repository(&format!("main-{number}"));
        machine.user.put(&dir, ".gitignore", "node_modules/\n");
        let evil = machine.user.repository(&format!("main-{number}/node_modules/evil"));
        machine.claim(&evil, make);
        let ran = machine.work_on(&dir);
        let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        let left_out = result["workspace"]["leftOut"].to_string();
        let is_left_out = left_out.contains("\"node_modules/evil/.git\"");
        let is_right = ran.code == Some(0) && found(&ran) == [""; 0] && is_left_out == *is_refused;
        if ran.stdout.contains(CANARY) || ran.stderr.contains(CANARY) || !is_right {
            wrong.push((make, left_out, found(&ran), ran.stderr));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whatever git itself makes goes on working.
#[test]
fn what_git_makes_is_seen_with_all_its_objects() {
    let user = User::new(Mode::Layers);
    let main = user.repository("main");
    user.git(&main, &["gc", "--quiet"]);
    user.git(&main, &["commit-graph", "write", "--reachable", "--split"]);
    user.git(&main, &["multi-pack-index", "write", "--bitmap"]);
    user.git(&main, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let work = user.cli.work();
    let at = |name: &str| text(&work.join(name));
    user.git(&work, &["clone", "--quiet", "--shared", &text(&main), "shared"]);
    user.git(&work, &["clone", "--quiet", "--shared", &at("shared"), "chained"]);
    user.git(
        &work,
        &[
            "clone",
            "--quiet",
            "--reference",
            &text(&main),
            &format!("file://{}", main.display()),
            "reference",
        ],
    );
    user.git(&main, &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    user.git(&main, &["worktree", "add", "--quiet", "-b", "within", "within"]);
    user.git(&work, &["clone", "--quiet", "--bare", &text(&main), "around/.bare"]);
    user.put(&work.join("around"), ".git", "gitdir: ./.bare\n");
    user.git(&work.join("around"), &["worktree", "add", "--quiet", "-b", "branch", "branch"]);
    let allow = ["-c", "protocol.file.allow=always"];
    user.git(&work, &["clone", "--quiet", &text(&main), "super"]);
    let sub = work.join("super");
    user.git(&sub, &[&allow[..], &["submodule", "--quiet", "add", &text(&main), "part"]].concat());
    user.git(&sub, &["commit", "--quiet", "-m", "with a part"]);
    user.git(&sub, &["worktree", "add", "--quiet", "-b", "beside", "../beside"]);
    user.git(&work.join("beside"), &[&allow[..], &["submodule", "--quiet", "update", "--init"]].concat());
    user.git(&work, &["clone", "--quiet", "--separate-git-dir", &at("apart.git"), &text(&main), "apart"]);
    user.git(&work.join("apart"), &["config", "core.worktree", &at("apart")]);
    user.agent("w", "git fsck --connectivity-only 2>&1; git log --format=%s | tail -n 2; git status --short");
    for name in [
        "main",
        "shared",
        "chained",
        "reference",
        "side",
        "main/within",
        "around/branch",
        "super/part",
        "beside/part",
        "apart",
    ] {
        let words = ["dispatch", "run", "--subagent", "w", "--workspace", &at(name), "--json"];
        let mut seen = said(&user.agora(&words).json());
        seen.retain(|line| line != "?? within/");
        assert_eq!(seen, ["second", "first"], "{name}");
    }
    // With the part in it.
    for name in ["super", "beside"] {
        let result =
            user.dispatch(&work.join(name), "git -C part log --format=%s; git submodule status | cut -c1");
        assert_eq!(said(&result), ["second", "first", " "], "{name}");
        assert_eq!(result["workspace"]["leftOut"], serde_json::json!([]), "{name}");
    }
}

#[test]
fn a_repository_of_another_user_is_refused_unless_git_is_told_that_it_is_safe() {
    if !rustix::process::geteuid().is_root() {
        return skipped("it takes root to give files away");
    }
    let user = User::ordinary(Mode::Layers);
    let dir = user.repository("theirs");
    let nested = user.repository("ours");
    let inner = user.repository("ours/inner");
    for theirs in [&dir, &inner] {
        run(Command::new("chown").args(["-R", "4322:4322"]).arg(theirs)).success();
    }
    user.agent("w", "git log --format=%s");
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()];
    let wrong = user.agora(&words);
    assert!(wrong.failure(2).contains("belongs to another user"));
    let result = user.dispatch(&nested, "git log --format=%s; git -C inner rev-parse --show-prefix");
    assert_eq!(said(&result), ["first", "inner/"]);
    assert!(result["workspace"]["leftOut"].to_string().contains("\"inner/.git\""), "{result:#}");
    user.git(&user.cli.work(), &["config", "--global", "--add", "safe.directory", dir.to_str().unwrap()]);
    user.agent("w", "git log --format=%s");
    assert_eq!(user.agora(&words).stdout, "first\n");
}

/// Root may read everything: what it lends is its own, the repository's owner's, or open to everybody.
#[test]
fn root_does_not_lend_what_is_closed_to_the_repositorys_owner() {
    if !rustix::process::geteuid().is_root() {
        return skipped("it takes root to give files away");
    }
    let user = User::new(Mode::Layers);
    let give = |dir: &Path, to: &str| run(Command::new("chown").args(["-R", to]).arg(dir)).success();
    let main = user.repository("main");
    user.git(&user.cli.work(), &["clone", "--quiet", "--shared", main.to_str().unwrap(), "shared"]);
    let shared = user.cli.work().join("shared");
    give(&shared, "4321:4321");
    give(&main, "4321:4321");
    assert_eq!(said(&user.dispatch(&shared, "git log --format=%s")), ["first"]);
    // Another's, and everybody may read it; and then nobody else.
    give(&main, "4322:4322");
    assert_eq!(said(&user.dispatch(&shared, "git log --format=%s")), ["first"]);
    fs::set_permissions(&main, fs::Permissions::from_mode(0o700)).unwrap();
    let wrong = user.agora(&["dispatch", "run", "--subagent", "w", "--workspace", shared.to_str().unwrap()]);
    assert!(wrong.failure(2).contains("belongs to somebody else"));
}

#[test]
fn what_a_repository_says_later_is_not_shown_either() {
    let machine = Machine::new();
    machine.register();
    for (number, make) in [
        "echo $HOME/.ssh > .git/objects/info/alternates",
        "rm -rf .git/objects; ln -s $HOME/.ssh .git/objects",
        "rm -rf .git; echo gitdir: $PRIVATE/.git > .git",
        "rm -rf .git; ln -s $PRIVATE/.git .git",
    ]
    .into_iter()
    .enumerate()
    {
        let dir = machine.user.repository(&format!("main-{number}"));
        assert_eq!(found(&machine.work_on(&dir)), [""; 0], "{make}");
        machine.claim(&dir, make);
        let ran = machine.user.agora(&["continue", "@", "again", "--json"]);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("\"output\"") && !text.contains(CANARY), "{make}: {text}");
    }
}
