//! Where an adapter is found, and who may have put it there.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use agora_core::reason::FailureCode;
use agora_testkit::part;
use agora_testkit::worker::Dispatch;
use serde_json::json;

use super::support::{WORKER, adapter, chmod, install, speaks};

/// Says which adapter ran.
fn which(dispatch: Dispatch) -> String {
    dispatch.run().finished().output.text
}

#[test]
fn the_last_capability_wins_and_what_is_installed_comes_first() {
    let mine = || {
        Dispatch::of(WORKER, json!({"runtime": "mine"}))
            .capability("a", &[("agora-adapters/mine", &speaks("a"))])
            .capability("b", &[("agora-adapters/mine*", &speaks("b"))])
            .capability("c", &[("agora-adapters/other", "")])
    };
    assert_eq!(which(mine()), "b");
    let (dir, _) = install(&speaks("installed"));
    assert_eq!(which(mine().variable("AGORA_ADAPTERS_DIR", dir.path())), "installed");
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(which(mine().variable("AGORA_ADAPTERS_DIR", empty.path())), "b");
    assert_eq!(which(mine().variable("AGORA_ADAPTERS_DIR", empty.path().join("none"))), "b");
}

#[test]
fn a_setup_script_does_not_change_what_runs() {
    // Behind a wall it cannot even write to `aids`.
    let theirs = speaks("theirs").replace('\n', "\\n").replace('\'', "'\\''");
    let setup = format!(
        "for file in agora-adapters/mine ../aids/adapter-mine; do rm -f $file; printf '{theirs}' > $file; chmod 755 $file; done; true"
    );
    let packed = || adapter(json!({}), speaks("ours").trim_start_matches("#!/bin/sh\n"));
    let ended = packed().capability("setup", &[("agora-setup.sh", &setup)]).run();
    assert_eq!(ended.finished().output.text, "ours");
    assert!(ended.file("agora-adapters/mine").unwrap().contains("theirs"), "it did write there");

    let victim = tempfile::NamedTempFile::new().unwrap();
    let link = format!("ln -s {} ../aids/adapter-mine; true", victim.path().display());
    assert_eq!(which(packed().capability("setup", &[("agora-setup.sh", &link)])), "ours");
    assert_eq!(fs::read(victim.path()).unwrap(), b"", "nothing is written through a link");
}

fn refused(dir: &Path) -> String {
    let dispatch = Dispatch::of(WORKER, json!({"runtime": "mine"})).variable("AGORA_ADAPTERS_DIR", dir);
    // One that would do: what is unfit is not passed over.
    let ended = dispatch.capability("tools", &[("agora-adapters/mine", &speaks("packed"))]).run();
    assert!(ended.adapter_ran().is_none());
    let failure = ended.failed();
    assert_eq!(failure.code, FailureCode::AdapterMissing);
    failure.detail.clone()
}

#[test]
fn an_adapter_that_somebody_else_could_have_put_there_is_refused() {
    type Spoil = fn(&Path, &Path);
    let table: [(&str, Spoil); 9] = [
        ("can be written by its group or by others", |_, file| chmod(file, 0o775)),
        ("can be written by its group or by others", |_, file| chmod(file, 0o757)),
        ("can be written by its group or by others", |dir, _| chmod(dir, 0o777)),
        ("is not executable: `chmod +x` it", |_, file| chmod(file, 0o644)),
        ("is neither a program nor a script", |_, file| fs::write(file, "echo hello\n").unwrap()),
        ("is a symbolic link", |dir, file| {
            fs::rename(file, dir.join("real")).unwrap();
            symlink("real", file).unwrap();
        }),
        ("is not a regular file", |_, file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
        ("is not a regular file", |_, file| {
            fs::remove_file(file).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, file, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        }),
        ("has more than 50 MiB", |_, file| {
            fs::File::options().write(true).open(file).unwrap().set_len((50 << 20) + 1).unwrap();
        }),
    ];
    for (expected, spoil) in table {
        let (dir, file) = install(&speaks("spoilt"));
        spoil(dir.path(), &file);
        let detail = refused(dir.path());
        assert!(detail.contains(expected), "{detail}");
    }
    let (dir, _) = install(&speaks("behind a link"));
    let link = dir.path().join("link");
    symlink(dir.path(), &link).unwrap();
    assert!(refused(&link).contains("is a symbolic link"));
    assert!(refused(&link.join("")).contains("is a symbolic link"), "also with a slash at its end");
}

#[test]
fn an_adapter_of_somebody_elses_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return part::skipped("only root can give a file away");
    }
    let (dir, file) = install(&speaks("given away"));
    chown(&file, Some(12_345), None).unwrap();
    assert!(refused(dir.path()).contains("belongs to the user 12345"));
    chown(&file, Some(0), None).unwrap();
    chown(dir.path(), Some(12_345), None).unwrap();
    assert!(refused(dir.path()).contains("belongs to the user 12345"));
}

#[test]
fn an_adapter_that_is_nowhere_is_named_with_where_it_was_looked_for() {
    let detail = |dispatch: Dispatch| {
        let ended = dispatch.run();
        assert_eq!(ended.failed().code, FailureCode::AdapterMissing);
        ended.failed().detail.clone()
    };
    let nowhere = || Dispatch::of(WORKER, json!({"runtime": "nowhere"}));
    let plain = detail(nowhere());
    assert!(plain.contains("`claude-code`") && plain.contains("brings `agora-adapters/nowhere`"), "{plain}");
    assert!(plain.contains("no directory of installed ones"), "{plain}");
    let dir = tempfile::tempdir().unwrap();
    let looked = detail(nowhere().variable("AGORA_ADAPTERS_DIR", dir.path()));
    assert!(looked.contains(&format!("`{}` has none of that name", dir.path().display())), "{looked}");
    let text =
        detail(nowhere().capability("tools", &[("agora-adapters/nowhere*", "print('no first line')")]));
    assert!(text.contains("of the capability `tools` is neither a program nor a script"), "{text}");
    assert!(detail(nowhere().adapter("../nowhere")).contains("a name"));
}
