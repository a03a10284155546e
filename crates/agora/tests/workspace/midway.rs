//! Repositories that are not at rest: broken ones below, and something under way.

use std::path::Path;
use std::process::Command;

use agora_testkit::cli::run;

use crate::support::{Mode, User, said};

fn shell(user: &User, dir: &Path, script: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", script]).current_dir(dir).env_clear().env("PATH", "/usr/bin:/bin");
    shell.env("HOME", user.cli.work().parent().unwrap().join("home")).env("GIT_CONFIG_NOSYSTEM", "1");
    run(shell.env("GIT_EDITOR", "true")).success();
}

#[test]
fn a_broken_repository_below_is_left_out_and_nothing_else() {
    let broken = [
        "rm -r .git/refs",
        "rm -r .git/objects .git/refs; echo junk > .git/config",
        "rm -r .git/HEAD",
        "rm -r .git/*",
        "rm -r .git/HEAD; mkfifo .git/HEAD",
        "rm -r .git/index; mkdir .git/index",
        "rm -f .git/packed-refs; mkdir .git/packed-refs",
        "truncate -s 300M .git/packed-refs",
        "git config extensions.refStorage reftable",
        "rm -r .git; echo gitdir: ../nowhere > .git",
        "rm -r .git; echo > .git",
        "rm -r .git; mkfifo .git",
        "rm -r .git; ln -s nowhere .git",
        "echo nowhere > .git/commondir",
    ];
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, ".gitignore", "node_modules/\n");
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "second"]);
    user.repository("main/node_modules/whole");
    for (number, script) in broken.into_iter().enumerate() {
        let inner = user.repository(&format!("main/node_modules/{number}"));
        shell(&user, &inner, script);
    }
    user.agent("w", "git status --short; git -C node_modules/whole status --short; cat node_modules/*/a.txt | wc -l; ls -d node_modules/*/.git");
    let ran =
        user.agora(&["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--json"]);
    assert!(
        ran.stderr.contains("not a repository in the agent's workspace, because it is broken"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("could be a secret"), "{}", ran.stderr);
    let result: serde_json::Value = ran.json();
    let lines = (3 * (broken.len() + 1)).to_string();
    assert_eq!(said(&result), [&*lines, "node_modules/whole/.git"], "{result:#}");
    let left_out = result["workspace"]["leftOut"].as_array().unwrap();
    let mut wanted: Vec<String> =
        (0..broken.len()).map(|number| format!("node_modules/{number}/.git")).collect();
    let mut named: Vec<String> = left_out.iter().map(|path| path.as_str().unwrap().to_owned()).collect();
    wanted.sort();
    named.sort();
    assert_eq!(named, wanted);
    // The one that is worked on has to be whole.
    shell(&user, &dir, broken[0]);
    let wrong = user.agora(&["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()]);
    assert_ne!(wrong.code, Some(0), "{}", wrong.stderr);
}

#[test]
fn what_is_under_way_is_under_way_for_the_agent() {
    let midway = [
        "git merge other || true",
        "git merge other || true; git add -A",
        "git merge --squash other || true",
        "git rebase other || true",
        "git rebase --apply other || true",
        "GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -i HEAD~2",
        "git format-patch -q -1 other --stdout > ../patch; git am -q ../patch || true",
        "git cherry-pick other || true",
        "git cherry-pick other~1 other || true",
        "git cherry-pick other || true; git add -A; git -c core.editor=true commit -qm x; git cherry-pick other other~1 || true",
        "git revert HEAD~1 || true",
        "git bisect start; git bisect bad; git bisect good HEAD~2",
        "git checkout -q --detach",
        "git checkout -q HEAD~1; git commit -q --allow-empty -m more",
        "git tag v1; git checkout -q v1",
        "git worktree add -q -b far ../far; git merge other || true; git -C ../far bisect start HEAD HEAD~2",
    ];
    let looks = "git status; git status --porcelain=v2 --branch; git for-each-ref refs/bisect refs/worktree";
    for script in midway {
        let user = User::new(Mode::Layers);
        let dir = user.repository("main");
        let change = |what: &str| format!("sed -i s/two/{what}/ a.txt; git commit -qam {what}");
        let grow = "git checkout -q -b other; echo o > o.txt; git add o.txt; git commit -qm o";
        let back = "git checkout -q main; echo m > m.txt; git add m.txt; git commit -qm m";
        shell(&user, &dir, &format!("{grow}; {}; {back}; {}; {script}", change("theirs"), change("ours")));
        for tree in ["main", "far"].map(|name| user.cli.work().join(name)).iter().filter(|tree| tree.exists())
        {
            let mut users = Command::new("sh");
            users.args(["-c", looks]).current_dir(tree).env_clear().env("PATH", "/usr/bin:/bin");
            users.env("HOME", user.cli.work().parent().unwrap().join("home"));
            let users = run(users.env("GIT_CONFIG_NOSYSTEM", "1")).success();
            let result = user.dispatch(tree, looks);
            assert_eq!(said(&result), users.lines().collect::<Vec<_>>(), "{script}");
        }
    }
}
