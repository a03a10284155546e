//! An agent that means harm: nothing of its repository runs, and what is wrong with it costs its commits and not the work.

use std::os::unix::fs::PermissionsExt;

use crate::support::{MODES, Mode, Untouched, User, git_ref};

const OWNED: &str = "sh -c 'touch OWNED'";

#[test]
fn nothing_that_the_agent_configures_runs_outside() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let owned = user.cli.work().join("owned");
    let command = OWNED.replace("OWNED", owned.to_str().unwrap());
    let script = format!(
        "for key in core.fsmonitor core.sshCommand core.pager core.editor diff.external filter.x.clean filter.x.smudge filter.x.process \
            uploadpack.packObjectsHook core.alternateRefsCommand gpg.program credential.helper alias.apply; do git config $key \"{command}\"; done; \
         git config core.hooksPath .hooks; mkdir .hooks; for hook in post-index-change reference-transaction pre-commit post-checkout; do \
            printf '#!/bin/sh\\n{}\\n' > .hooks/$hook; chmod 755 .hooks/$hook; cp .hooks/$hook .git/hooks/; done; \
         echo '* filter=x diff=x' > .gitattributes; echo w >> a.txt",
        command.replace('\'', "\"")
    );
    let before = Untouched::look(&user, &dir);
    // What git runs inside, while the agent works there, is the agent's own business.
    let result = user.dispatch(&dir, &script);
    let _ = std::fs::remove_file(&owned);
    user.agora(&["show", "@"]).success();
    user.agora(&["apply", "@", "--branch", "tried", "--yes"]).success();
    assert!(!owned.exists());
    assert!(user.git(&dir, &["show", &format!("{}:a.txt", git_ref(&result))]).ends_with("w\n"));
    user.git(&dir, &["branch", "-q", "-D", "tried"]);
    assert_eq!(Untouched::look(&user, &dir), before);
}

/// A repository may have come from anywhere, with its configuration.
#[test]
fn nothing_that_a_repository_configures_runs_when_work_comes_home_to_it() {
    let allowed = ("protocol.ext.allow", "always");
    let promised = [
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "ext::OWNED"),
        allowed,
    ];
    for (settings, is_ref) in [
        (&[("core.alternateRefsCommand", "OWNED")][..], true),
        (&[("url.ext::OWNED .insteadOf", "/"), allowed], false),
        (&promised, true),
    ] {
        let user = User::new(Mode::Layers);
        let from = user.repository("from");
        user.git(&user.cli.work(), &["clone", "--quiet", "--shared", "from", "main"]);
        let (dir, owned) = (user.cli.work().join("main"), user.cli.work().join("owned"));
        let program = from.join("program");
        std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", owned.display())).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        for words in settings {
            let [key, value] =
                [words.0, words.1].map(|word| word.replace("OWNED", program.to_str().unwrap()));
            user.git(&dir, &["config", &key, &value]);
        }
        let result = user.dispatch(&dir, "echo w >> a.txt; git commit -qam mine");
        assert_eq!(result["patch"]["gitRef"].is_string(), is_ref, "{settings:?}: {result:#}");
        let missing = ["--base", &"1".repeat(40)];
        let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()];
        assert_ne!(user.agora(&[&words[..], &missing].concat()).code, Some(0));
        assert_eq!(user.agora(&["apply", "@", "--commit"]).code == Some(0), is_ref, "{settings:?}");
        assert!(!owned.exists(), "{settings:?}: a program of the repository's ran");
    }
}

#[test]
fn a_repository_that_is_none_any_more_costs_the_commits_and_not_the_work() {
    let hostile = [
        "rm .git/HEAD; mkfifo .git/HEAD",
        "rm .git/HEAD; ln -s /etc/hostname .git/HEAD",
        "echo 'ref: ../../../etc/passwd' > .git/HEAD",
        "echo 'ref: refs/heads/loop' > .git/refs/heads/loop; echo 'ref: refs/heads/loop' > .git/HEAD",
        "rm -rf .git; ln -s / .git",
        "rm -rf .git; mkfifo .git",
        "rm -rf .git",
        "echo 1 > x; git add x; git commit -qm x; git gc -q; for p in .git/objects/pack/*.pack; do head -c 40 $p > t; mv -f t $p; done",
        "echo 1 > x; git add x; git commit -qm x; for o in .git/objects/??/*; do chmod 600 $o; echo junk > $o; done",
        "mkdir -p .git/objects/aa; ln -s /etc/passwd .git/objects/aa/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; echo 1 > x; git add x; git commit -qm x",
        "T=$(printf '100644 .git\\0aaaaaaaaaaaaaaaaaaaa' | git hash-object -t tree --literally -w --stdin); C=$(git commit-tree -m bad -p HEAD $T); git update-ref HEAD $C",
        // Nothing is missing: only whoever is to take it in finds that it is wrong.
        "T=$(git cat-file tree HEAD^{tree} | sed s/a.txt/.git/ | git hash-object -t tree --literally -w --stdin); \
         C=$(git commit-tree -m bad -p HEAD $T); git update-ref HEAD $(git commit-tree -m good -p $C HEAD^{tree})",
    ];
    for script in hostile {
        let user = User::new(Mode::Layers);
        let dir = user.repository("main");
        let before = Untouched::look(&user, &dir);
        let result = user.dispatch(&dir, &format!("echo work > work.txt; {script}"));
        assert!(result["patch"]["files"].as_u64().unwrap() >= 1, "{script}: {result:#}");
        let shown = user.git(&dir, &["show", &format!("{}:work.txt", git_ref(&result))]);
        assert_eq!(shown, "work\n", "{script}");
        let count = user.git(&dir, &["rev-list", "--count", &format!("main..{}", git_ref(&result))]);
        assert_eq!(count, "1\n", "{script}: {result:#}");
        assert_eq!(Untouched::look(&user, &dir), before, "{script}");
        user.git(&dir, &["fsck", "--strict"]);
    }
}

#[test]
fn a_tree_that_is_closed_or_too_deep_costs_the_snapshot_and_not_the_work() {
    for mode in MODES {
        let user = User::ordinary(mode);
        let dir = user.repository("main");
        let result = user.dispatch(
            &dir,
            "echo work > work.txt; mkdir closed; echo x > closed/x; chmod 000 closed; mkfifo pipe; \
             d=$(printf 'd%.0s' $(seq 200)); i=0; while [ $i -lt 40 ]; do mkdir $d && cd $d; i=$((i+1)); done",
        );
        assert_eq!(
            user.git(&dir, &["show", &format!("{}:work.txt", git_ref(&result))]),
            "work\n",
            "{mode:?}"
        );
        assert_eq!(result["workspaceSaved"], false, "{mode:?}");
        for words in ["a directory of it is closed, or too deep", "what is in it is not in the patch"] {
            assert!(result["warnings"].to_string().contains(words), "{result:#}");
        }
        let place = user.home().join("dispatches").join(result["dispatchId"].as_str().unwrap());
        assert!(!place.join("work").exists() && !place.join("layers").exists(), "nothing is left behind");
    }
}
