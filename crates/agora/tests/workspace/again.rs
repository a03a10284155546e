//! A thread whose work is brought, goes on, and is brought again: what came before is not what the user changed.

use std::fs;
use std::path::Path;

use crate::support::{Mode, User};

/// Works twice: the second time on what it made the first time. One file it lets go back to what it was.
const SCRIPT: &str = "if grep -q ONE a.txt; then sed -i s/ONE/ONE,/ a.txt; echo more >> new.txt; echo b > src/b.txt; exit; fi; \
    sed -i s/one/ONE/ a.txt; echo new > new.txt; echo x >> src/b.txt";

const ONCE: [&str; 3] = ["ONE\ntwo\nthree\n", "new\n", "b\nx\n"];
const TWICE: [&str; 3] = ["ONE,\ntwo\nthree\n", "new\nmore\n", "b\n"];

fn files(dir: &Path) -> [String; 3] {
    ["a.txt", "new.txt", "src/b.txt"].map(|path| fs::read_to_string(dir.join(path)).unwrap_or_default())
}

/// What the user does between the first apply and the second.
type Between = fn(&User, &Path);

fn apply(user: &User, words: &[&str]) {
    user.agora(&[&["apply", "@"], words].concat()).success();
}

fn commit(user: &User, dir: &Path) {
    user.git(dir, &["add", "-A"]);
    user.git(dir, &["commit", "--quiet", "-m", "mine"]);
}

/// Works, brings that, lets the user do something and the agent go on.
fn once(words: &[&str], between: Between) -> (User, std::path::PathBuf) {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, SCRIPT);
    apply(&user, words);
    between(&user, &dir);
    let result = user.agora(&["continue", "@", "--json"]).json();
    assert_eq!(result["state"], "finished", "{result:#}");
    (user, dir)
}

#[test]
fn what_was_brought_before_is_no_conflict_whatever_the_user_did_with_it() {
    let edited: [&str; 3] = ["ONE,\ntwo\nTHREE\n", "new\nmore\n", "b\n"];
    let cases: [(&str, &[&str], Between, [&str; 3]); 9] = [
        ("nothing", &[], |_, _| {}, TWICE),
        ("other lines", &[], |user, dir| user.put(dir, "a.txt", "ONE\ntwo\nTHREE\n"), edited),
        ("committed", &[], commit, TWICE),
        ("committed by agora", &["--commit"], |_, _| {}, TWICE),
        (
            "a branch that was merged",
            &["--branch", "first"],
            |user, dir| drop(user.git(dir, &["merge", "--quiet", "first"])),
            TWICE,
        ),
        ("a branch that was not merged", &["--branch", "first"], |_, _| {}, TWICE),
        (
            "taken back",
            &[],
            |user, dir| {
                user.git(dir, &["checkout", "--quiet", "."]);
                user.git(dir, &["clean", "-fdq"]);
            },
            TWICE,
        ),
        (
            "taken back in part, with other lines",
            &[],
            |user, dir| user.put(dir, "a.txt", "one\ntwo\nTHREE\n"),
            edited,
        ),
        (
            "a commit that was taken back",
            &["--commit"],
            |user, dir| drop(user.git(dir, &["reset", "--quiet", "--hard", "HEAD~1"])),
            TWICE,
        ),
    ];
    for (what, words, between, expected) in cases {
        let (user, dir) = once(words, between);
        apply(&user, &[]);
        assert_eq!(files(&dir), expected, "{what}");
        // It is all there.
        apply(&user, &[]);
        assert_eq!(files(&dir), expected, "{what}");
    }
}

#[test]
fn each_way_goes_on_where_the_last_one_was() {
    let (user, dir) = once(&["--commit"], |_, _| {});
    apply(&user, &["--commit"]);
    assert_eq!(files(&dir), TWICE);
    assert_eq!(user.git(&dir, &["status", "--porcelain"]), "");
    assert_eq!(user.git(&dir, &["diff", "--name-only", "HEAD~1"]), "a.txt\nnew.txt\nsrc/b.txt\n");

    // The second branch has no more to merge than what is new.
    let (user, dir) = once(&["--branch", "first"], |user, dir| {
        user.git(dir, &["merge", "--quiet", "--no-ff", "first"]);
        user.put(dir, "mine.txt", "mine\n");
        commit(user, dir);
    });
    apply(&user, &["--branch", "second"]);
    user.git(&dir, &["merge", "--quiet", "--no-edit", "second"]);
    assert_eq!(files(&dir), TWICE);
    assert!(dir.join("mine.txt").exists());
    assert_eq!(
        user.git(&dir, &["diff", "--name-only", "main~2", "second"]),
        user.git(&dir, &["diff", "--name-only", "main~2...second"])
    );
}

#[test]
fn only_the_last_one_is_taken_back() {
    let (user, dir) = once(&[], commit);
    apply(&user, &[]);
    user.git(&dir, &["checkout", "--quiet", "."]);
    assert_eq!(files(&dir), ONCE);
    apply(&user, &[]);
    assert_eq!(files(&dir), TWICE);
    // Or all of it.
    commit(&user, &dir);
    user.git(&dir, &["reset", "--quiet", "--hard", "HEAD~2"]);
    apply(&user, &[]);
    assert_eq!(files(&dir), TWICE);
}

#[test]
fn where_both_changed_the_same_it_is_still_a_conflict_and_a_file_that_the_user_deleted_stays_so() {
    let (user, dir) = once(&[], |user, dir| user.put(dir, "a.txt", "the user's ONE\ntwo\nthree\n"));
    let said = user.agora(&["apply", "@"]).failure(2);
    assert!(said.contains("`a.txt` changed here, too") && !said.contains("new.txt"), "{said}");
    assert_eq!(files(&dir), ["the user's ONE\ntwo\nthree\n", ONCE[1], ONCE[2]]);

    // What the agent did not touch again, the user may change as they like.
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "test -e new.txt || sed -i s/one/ONE/ a.txt; echo new >> new.txt");
    apply(&user, &[]);
    fs::remove_file(dir.join("a.txt")).unwrap();
    user.agora(&["continue", "@"]).success();
    apply(&user, &[]);
    assert_eq!(files(&dir), ["", "new\nnew\n", "b\n"]);
}

#[test]
fn a_plain_directory_remembers_too() {
    let user = User::new(Mode::Layers);
    let dir = user.cli.work().join("plain");
    user.put(&dir, "a.txt", "one\ntwo\nthree\n");
    user.put(&dir, "src/b.txt", "b\n");
    user.dispatch(&dir, SCRIPT);
    apply(&user, &[]);
    assert_eq!(files(&dir), ONCE);
    user.agora(&["continue", "@"]).success();
    apply(&user, &[]);
    assert_eq!(files(&dir), TWICE);
}
