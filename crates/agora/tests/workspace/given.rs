//! A file that a capability or the setup script changed before the agent did: the work fits the source all the same, and nobody else's
//! changes come home unsaid.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{MODES, Mode, User, git_ref, warned};

const LINES: &str = "1\n2\n3\n4\n5\n";

/// What the setup script does, to files that are tracked and to one that is not there.
const SETUP: &str = "for f in set dropped moved reverted alone; do sed -i s/1/setup/ $f.txt; done; sed -i s/3/setup/ fight.txt; \
    rm gone.txt; printf 'set\\0up' > bin; chmod 755 run.sh; echo set up > made.txt; echo alone > made-alone.txt; \
    ln -sf setup link; rm -r turned; echo file > turned; rm flat; mkdir flat; echo in > flat/in";

/// What the agent does then.
const WORK: &str = "for f in set cap reverted; do sed -i s/5/agent/ $f.txt; done; sed -i s/setup/agent/ fight.txt; rm dropped.txt; \
    mv moved.txt elsewhere.txt; sed -i 's/setup/1/;s/agent/5/' reverted.txt; printf 'agent\\0' > bin; echo more >> run.sh; \
    echo agent >> made.txt; echo agent >> laid.txt; echo new > gone.txt; echo agent >> clash.txt; ln -sf agent link; \
    echo agent >> turned; echo agent > flat/new; echo plain >> a.txt; chmod 755 mode.txt";

/// What of it comes home, to files that the source has, and to others.
const CHANGED: [(&str, &str); 8] = [
    ("a.txt", "one\ntwo\nthree\nplain\n"),
    ("cap.txt", "1\n2\n3\n4\nagent\n"),
    ("clash.txt", "laid over\nagent\n"),
    ("elsewhere.txt", "1\nmoved\n"),
    ("fight.txt", "1\n2\nagent\n4\n5\n"),
    ("gone.txt", "new\n"),
    ("run.sh", "1\n2\n3\n4\n5\nmore\n"),
    ("set.txt", "1\n2\n3\n4\nagent\n"),
];
const NEW: [(&str, &str); 2] = [("laid.txt", "laid\nagent\n"), ("made.txt", "set up\nagent\n")];

/// The files that the patch has as they ended: the agent's changes could not be told apart.
const WHOLE: [&str; 8] =
    ["bin", "clash.txt", "dropped.txt", "fight.txt", "gone.txt", "laid.txt", "link", "made.txt"];
const MERGED: [&str; 4] = ["cap.txt", "mode.txt", "run.sh", "set.txt"];

fn source(user: &User) -> PathBuf {
    let dir = user.repository("main");
    for name in [
        "set.txt",
        "cap.txt",
        "dropped.txt",
        "moved.txt",
        "reverted.txt",
        "alone.txt",
        "fight.txt",
        "gone.txt",
        "clash.txt",
        "run.sh",
        "mode.txt",
        "turned/in",
        "flat",
    ] {
        user.put(&dir, name, LINES);
    }
    user.put(&dir, "moved.txt", "1\nmoved\n");
    user.put(&dir, "bin", "a\0b");
    std::os::unix::fs::symlink("user", dir.join("link")).unwrap();
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "second"]);
    dir
}

/// Registers an agent with a capability that lays files, and a setup script.
fn equipped(user: &User, script: &str) {
    let over = user.cli.work().parent().unwrap().join("over");
    user.put(&over, "cap.txt", "capability\n2\n3\n4\n5\n");
    user.put(&over, "mode.txt", "capability\n2\n3\n4\n5\n");
    user.put(&over, "clash.txt", "laid over\n");
    user.put(&over, "laid.txt", "laid\n");
    user.put(&over, "laid-alone.txt", "laid\n");
    user.put(&over, "agora-setup.sh", SETUP);
    user.agora(&["capability", "register", "--name", "over", "--from", over.to_str().unwrap()]).success();
    let definition = json!({
        "name": "w", "runtime": "command", "command": ["sh", "-c", script], "capabilities": ["over"]
    });
    let file = over.with_extension("yaml");
    fs::write(&file, definition.to_string()).unwrap();
    user.agora(&["subagent", "register", "--name", "w", "--from", file.to_str().unwrap()]).success();
}

fn dispatch(user: &User, dir: &Path) -> Value {
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--json"];
    user.agora(&words).json()
}

fn names(all: &Value) -> Vec<&str> {
    all.as_array().map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Sees that a directory is what comes of the work.
#[track_caller]
fn holds_the_work(dir: &Path, about: &str) {
    for (name, content) in CHANGED.into_iter().chain(NEW) {
        assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), content, "{about}: {name}");
    }
    for name in ["alone.txt", "reverted.txt", "turned/in", "flat", "mode.txt"] {
        assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), LINES, "{about}: {name}");
    }
    assert_eq!(fs::read(dir.join("bin")).unwrap(), b"agent\0", "{about}");
    assert_eq!(fs::read_link(dir.join("link")).unwrap(), Path::new("agent"), "{about}");
    let runs = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o100 != 0
    };
    assert!(!runs("run.sh") && runs("mode.txt"), "{about}");
    for name in ["dropped.txt", "moved.txt", "made-alone.txt", "laid-alone.txt", "agora-setup.sh"] {
        assert!(!dir.join(name).exists(), "{about}: {name}");
    }
}

#[test]
fn the_work_fits_the_source_whoever_changed_a_file_before_and_all_ways_home_agree() {
    let users = [User::new(Mode::Layers), User::new(Mode::Copies), User::ordinary(Mode::Layers)];
    for (mode, user) in users.into_iter().enumerate() {
        let dir = source(&user);
        equipped(&user, WORK);
        let result = dispatch(&user, &dir);
        assert_eq!(result["state"], "finished", "user {mode}: {result:#}");
        assert_eq!(names(&result["patch"]["whole"]), WHOLE, "user {mode}: {result:#}");
        assert_eq!(names(&result["patch"]["merged"]), MERGED, "user {mode}: {result:#}");
        let warned = warned(&result);
        assert!(
            warned.contains("a capability or the setup script had changed `bin`, `clash.txt`"),
            "{warned}"
        );
        // What it made a directory of, or a file, cannot be there beside what the source has.
        for name in ["turned", "flat/new"] {
            assert!(
                warned.contains(&format!("`{name}` is not in the patch: something that is not")),
                "{warned}"
            );
        }

        let tree = format!("{}^{{tree}}", git_ref(&result));
        let tree = user.git(&dir, &["rev-parse", &tree]);
        user.git(&dir, &["checkout", "--quiet", "-b", "by-ref", &git_ref(&result)]);
        holds_the_work(&dir, "the ref");
        let again = |way: &str| {
            user.git(&dir, &["checkout", "--quiet", "main"]);
            user.git(&dir, &["checkout", "--quiet", "-b", way]);
        };
        again("by-patch");
        let patch = user.cli.work().join("work.patch");
        fs::write(&patch, user.agora(&["apply", "@", "--patch"]).success()).unwrap();
        user.git(&dir, &["apply", "--index", patch.to_str().unwrap()]);
        assert_eq!(user.git(&dir, &["write-tree"]), tree, "user {mode}");
        user.git(&dir, &["reset", "--quiet", "--hard"]);
        again("by-files");
        let ran = user.agora(&["apply", "@"]);
        assert!(ran.stderr.contains("the setup script had changed `bin`"), "{}", ran.stderr);
        ran.success();
        holds_the_work(&dir, "apply");
        user.git(&dir, &["add", "-A"]);
        assert_eq!(user.git(&dir, &["write-tree"]), tree, "user {mode}");
        user.git(&dir, &["reset", "--quiet", "--hard"]);
        again("by-commit");
        user.agora(&["apply", "@", "--commit"]).success();
        assert_eq!(user.git(&dir, &["rev-parse", "HEAD^{tree}"]), tree, "user {mode}");
        assert_eq!(user.git(&dir, &["status", "--porcelain"]), "");
        user.agora(&["apply", "@", "--branch", "by-branch"]).success();
        assert_eq!(user.git(&dir, &["rev-parse", "by-branch^{tree}"]), tree, "user {mode}");
    }
}

#[test]
fn what_the_agent_committed_of_it_is_kept_and_a_thread_that_goes_on_says_the_same() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = source(&user);
        let again = "sed -i s/4/again/ set.txt; echo again >> laid.txt; echo again >> fight.txt";
        let script = format!(
            "if test -e elsewhere.txt; then {again}; exit; fi; {WORK}; git add -A; git commit -qm mine"
        );
        equipped(&user, &script);
        let first = dispatch(&user, &dir);
        assert_eq!(names(&first["patch"]["whole"]), WHOLE, "{mode:?}: {first:#}");
        let show =
            |result: &Value, name: &str| user.git(&dir, &["show", &format!("{}:{name}", git_ref(result))]);
        assert_eq!(
            (show(&first, "set.txt"), show(&first, "alone.txt")),
            (CHANGED[7].1.to_owned(), LINES.to_owned())
        );
        let log = user.git(&dir, &["log", "--format=%s", &format!("main..{}", git_ref(&first))]);
        assert_eq!(log, "w: what was not committed\nmine\n");
        assert!(warned(&first).contains("the agent committed `alone.txt`"), "{first:#}");

        let second = user.agora(&["continue", first["threadId"].as_str().unwrap(), "--json"]).json();
        assert_eq!(second["state"], "finished", "{second:#}");
        assert_eq!(names(&second["patch"]["whole"]), WHOLE, "{mode:?}: {second:#}");
        assert_eq!(show(&second, "set.txt"), "1\n2\n3\nagain\nagent\n");
        assert_eq!(show(&second, "laid.txt"), "laid\nagent\nagain\n");
        assert_eq!(show(&second, "fight.txt"), "1\n2\nagent\n4\n5\nagain\n");
        // Since the pause there is nobody else's.
        let since = &second["patchSincePause"];
        assert_eq!((&since["files"], names(&since["whole"]).len()), (&3.into(), 0), "{second:#}");
        user.agora(&["apply", "@"]).success();
        assert_eq!(fs::read_to_string(dir.join("fight.txt")).unwrap(), "1\n2\nagent\n4\n5\nagain\n");
    }
}

#[test]
fn a_plain_directory_takes_such_work_too_and_what_it_ignores_stays() {
    let user = User::new(Mode::Layers);
    let plain = user.cli.work().join("plain");
    user.put(&plain, "set.txt", LINES);
    let over = user.cli.work().parent().unwrap().join("over");
    equipped(&user, "sed -i s/5/agent/ set.txt; echo agent >> laid.txt; echo agent >> made.txt");
    user.put(&over, "agora-setup.sh", "sed -i s/1/setup/ set.txt; echo set up > made.txt");
    user.agora(&["capability", "register", "--name", "over", "--from", over.to_str().unwrap()]).success();
    let result = dispatch(&user, &plain);
    assert_eq!(names(&result["patch"]["whole"]), ["laid.txt", "made.txt"], "{result:#}");
    user.agora(&["apply", "@"]).success();
    assert_eq!(fs::read_to_string(plain.join("set.txt")).unwrap(), "1\n2\n3\n4\nagent\n");
    assert_eq!(fs::read_to_string(plain.join("laid.txt")).unwrap(), "laid\nagent\n");
    assert_eq!(fs::read_to_string(plain.join("made.txt")).unwrap(), "set up\nagent\n");

    // What the user's own rules ignore is no part of the work, whoever made it.
    let dir = user.repository("main");
    user.put(&dir, ".gitignore", "laid*\nmade.txt\nset.txt\n");
    user.put(&dir, "set.txt", LINES);
    let result = dispatch(&user, &dir);
    assert_eq!(result["patch"]["files"], 0, "{result:#}");
}
