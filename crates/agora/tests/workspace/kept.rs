//! Line endings and filters: a ref has what git would keep, and nothing that attributes name ever runs.

use std::fs;
use std::process::Command;

use crate::support::{MODES, Mode, Untouched, User, git_ref, said, warned};

fn counts(user: &User, dir: &std::path::Path, to: &str) -> String {
    user.git(dir, &["diff", "--numstat", "main", to])
}

#[test]
fn one_changed_line_is_one_whatever_lines_end_with() {
    let user = User::new(Mode::Layers);
    for (name, settings, attributes) in [
        ("setting", &[("core.autocrlf", "true")][..], ""),
        ("attribute", &[], "* text eol=crlf\n"),
        ("auto", &[("core.eol", "crlf")], "* text=auto\n"),
    ] {
        let dir = user.repository(name);
        for (key, value) in settings {
            user.git(&dir, &["config", key, value]);
        }
        user.put(&dir, ".gitattributes", attributes);
        user.put(&dir, "f.txt", "one\r\ntwo\r\nthree\r\n");
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "second"]);
        assert_eq!(user.git(&dir, &["show", "HEAD:f.txt"]), "one\ntwo\nthree\n", "{name}");
        let result = user.dispatch(&dir, "sed -i s/two/TWO/ f.txt; printf 'x\\r\\n' > new.txt");
        assert_eq!(counts(&user, &dir, &git_ref(&result)), "1\t1\tf.txt\n1\t0\tnew.txt\n", "{name}");
        assert_eq!(user.git(&dir, &["show", &format!("{}:new.txt", git_ref(&result))]), "x\n");

        user.agora(&["apply", "@", "--commit"]).success();
        assert_eq!(counts(&user, &dir, "HEAD~1"), "1\t1\tf.txt\n0\t1\tnew.txt\n", "{name}");
        assert_eq!(user.git(&dir, &["status", "--porcelain"]), "", "{name}");
        assert_eq!(fs::read(dir.join("f.txt")).unwrap(), b"one\r\nTWO\r\nthree\r\n", "{name}");

        // What the agent committed is what it would be: there is no commit more that only turns line ends.
        let result = user.dispatch(&dir, "sed -i s/one/ONE/ f.txt; git commit -qam only");
        assert_eq!(user.git(&dir, &["log", "-1", "--format=%s", &git_ref(&result)]), "only\n", "{name}");
        user.agora(&["apply", "@"]).success();
        assert_eq!(fs::read(dir.join("f.txt")).unwrap(), b"ONE\r\nTWO\r\nthree\r\n", "{name}");
    }
}

#[test]
fn a_file_that_was_kept_with_its_line_ends_stays_so() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, "f.txt", "one\r\ntwo\r\n");
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "second"]);
    user.git(&dir, &["config", "core.autocrlf", "true"]);
    let result = user.dispatch(&dir, "sed -i s/two/TWO/ f.txt");
    assert_eq!(counts(&user, &dir, &git_ref(&result)), "1\t1\tf.txt\n");
}

#[test]
fn files_with_a_filter_that_are_as_young_as_the_index_are_not_changed() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = user.repository("main");
        for (key, value) in [("clean", "tr a-z A-Z"), ("smudge", "tr A-Z a-z")] {
            user.git(&dir, &["config", "--global", &format!("filter.up.{key}"), value]);
        }
        user.put(&dir, ".gitattributes", "*.up filter=up\n");
        for name in ["x.up", "y.up", "later.up"] {
            user.put(&dir, name, "hello\n");
        }
        let stamp = |names: &[&str]| {
            let words = [&["-d", "2020-02-02 02:02:02"], names].concat();
            assert!(Command::new("touch").args(words).current_dir(&dir).status().unwrap().success());
        };
        stamp(&["x.up", "y.up", "later.up"]);
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "second"]);
        // Two are as young as the index, and one of them is another. A third was only touched.
        user.put(&dir, "y.up", "other\n");
        stamp(&["x.up", "y.up", ".git/index"]);
        fs::File::open(dir.join("later.up")).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
        let before = Untouched::look(&user, &dir);
        let result = user.dispatch(&dir, "git status --porcelain; git diff --name-only");
        assert_eq!(said(&result), [" M y.up", "y.up"], "{mode:?}");
        assert_eq!(Untouched::look(&user, &dir), before);
        // A clone of this very moment.
        let url = dir.to_str().unwrap();
        user.git(&user.cli.work(), &["clone", "--quiet", url, "fresh"]);
        let fresh = user.cli.work().join("fresh");
        assert_eq!(fs::read_to_string(fresh.join("x.up")).unwrap(), "hello\n");
        let result =
            user.dispatch(&fresh, "git status --porcelain; echo more >> x.up; git status --porcelain");
        assert_eq!(said(&result), [" M x.up"], "{mode:?}");
    }
}

#[test]
fn what_goes_through_a_filter_is_brought_as_a_file_and_no_filter_runs() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let ran = user.cli.work().join("ran");
    for (key, value) in [("clean", "tr a-z A-Z"), ("smudge", "tr A-Z a-z")] {
        let program = format!("sh -c 'touch {}; {value}'", ran.display());
        user.git(&dir, &["config", &format!("filter.up.{key}"), &program]);
        user.git(&dir, &["config", "--global", &format!("filter.up.{key}"), &program]);
    }
    user.put(&dir, ".gitattributes", "*.up filter=up\n");
    user.put(&dir, "x.up", "hello\n");
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "second"]);
    assert_eq!(user.git(&dir, &["show", "HEAD:x.up"]), "HELLO\n");
    fs::remove_file(&ran).unwrap();

    // The agent's own attributes count for nothing.
    let script = "echo more >> x.up; echo w >> a.txt; echo '*.txt filter=up' >> .gitattributes";
    let result = user.dispatch(&dir, script);
    let names = user.git(&dir, &["diff-tree", "-r", "--name-only", "main", &git_ref(&result)]);
    assert_eq!(names, ".gitattributes\na.txt\n");
    let words = "`x.up` is in the patch, and not in the ref: the filter `up` is a program";
    assert!(warned(&result).contains(words), "{result:#}");
    assert_eq!(
        user.git(&dir, &["cat-file", "blob", &format!("{}:a.txt", git_ref(&result))]),
        "one\ntwo\nthree\nw\n"
    );

    let applied = user.agora(&["apply", "@", "--commit", "--yes"]);
    assert!(
        applied.code == Some(0) && applied.stderr.contains("in the files, and not in the commit"),
        "{applied:?}"
    );
    assert_eq!(fs::read_to_string(dir.join("x.up")).unwrap(), "hello\nmore\n");
    assert_eq!(fs::read_to_string(dir.join("a.txt")).unwrap(), "one\ntwo\nthree\nw\n");
    assert_eq!(
        user.git(&dir, &["diff-tree", "-r", "--name-only", "HEAD~1", "HEAD"]),
        ".gitattributes\na.txt\n"
    );
    // Whoever writes an index looks again at files that are as young as it is: also then.
    for number in 0..3 {
        user.put(&dir, &format!("{number}.up"), "young\n");
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "young"]);
        fs::remove_file(&ran).unwrap();
        user.dispatch(&dir, "echo again >> again");
        user.agora(&["apply", "@", "--commit"]).success();
        assert!(!ran.exists(), "a filter ran");
    }
    user.dispatch(&dir, "echo again >> x.up; echo again > other");
    user.agora(&["apply", "@"]).success();
    assert_eq!(fs::read_to_string(dir.join("x.up")).unwrap(), "hello\nmore\nagain\n");
    assert!(!ran.exists(), "a filter ran");
}
