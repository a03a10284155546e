//! Which wall is built, what it shows, and what a dispatch says of it.

use std::fs;

use agora_core::reason::FailureCode;
use agora_core::wall::{Isolation, Level, Network};
use agora_testkit::worker::Dispatch;
use serde_json::json;

use super::support::{Setting, settings};

fn script(text: &str) -> Dispatch {
    Dispatch::script(env!("CARGO_BIN_EXE_agora-worker"), text)
}

fn said(setting: Setting, dispatch: Dispatch) -> String {
    let ended = setting.of(dispatch).run();
    ended.finished();
    ended.adapter_ran().unwrap().stdout.clone()
}

#[test]
fn auto_takes_the_strongest_and_says_when_it_is_not_the_first() {
    for setting in settings() {
        let ended = setting.of(script("true")).run();
        let report = ended.finished();
        assert_eq!(report.wall.level, setting.level);
        let told = report.warnings.iter().any(|warning| warning.contains("without namespaces"));
        assert_eq!(told, setting.level == Level::Landlock, "{:?}", report.warnings);
        assert_eq!(report.wall.because.is_some(), setting.level == Level::Landlock);
        assert!(report.wall.seccomp && report.wall.uid != Some(0) && !report.wall.visible.is_empty());
    }
}

#[test]
fn strict_refuses_before_the_agent_starts() {
    for setting in settings() {
        let strict =
            |dispatch: Dispatch| dispatch.with(|manifest| manifest.wall.isolation = Isolation::Strict);
        let ended = setting.of(strict(script("touch ran"))).run();
        if setting.level == Level::Namespaces {
            ended.finished();
            continue;
        }
        let failure = ended.failed();
        assert_eq!(failure.code, FailureCode::WallMissing);
        assert!(failure.detail.contains("strict") && failure.hint.is_some(), "{failure:?}");
        assert!(ended.adapter_ran().is_none() && ended.file("ran").is_none());
    }
}

#[test]
fn none_is_recorded() {
    let none = script("pwd").with(|manifest| manifest.wall.isolation = Isolation::None);
    let work = none.work();
    let ended = none.run();
    assert_eq!(ended.finished().wall.level, Level::None);
    assert_eq!(ended.adapter_ran().unwrap().stdout.trim_end(), work.display().to_string());
}

#[test]
fn a_network_of_its_own_has_nothing_but_itself() {
    let script_text =
        "ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' ';
        python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen();
c = socket.create_connection(s.getsockname()); print(\"spoke to itself\")'";
    let closed = |text: &str| script(text).with(|manifest| manifest.wall.network = Network::None);
    for setting in settings() {
        if setting.level == Level::Landlock {
            let ended = setting.of(closed("true")).run();
            assert_eq!(ended.failed().code, FailureCode::WallMissing, "it does not pretend");
            continue;
        }
        let text = said(setting, closed(script_text));
        assert!(text.starts_with("lo\n") && text.contains("spoke to itself"), "{setting:?}: {text}");
        assert!(!text.contains("eth"), "{text}");
    }
}

#[test]
fn a_room_is_small_and_everything_is_where_it_should_be() {
    let text = "pwd; echo $HOME $TMPDIR; ls / | tr '\\n' ' '; ls /proc | grep -c '^[0-9]'; echo x > /dev/null; \
                tty; test -c /dev/urandom && test -w /dev/shm && echo devices; ls -la $HOME | wc -l";
    for setting in settings().filter(|setting| setting.level == Level::Namespaces) {
        let home = script(text).variable("HOME", "/home/somebody");
        let text = said(setting, home);
        assert!(text.starts_with("/workspace\n/home/somebody /tmp\n"), "{setting:?}: {text}");
        assert!(text.contains("devices\n"), "{text}");
        for hidden in ["root", "boot", "srv", "mnt", "old_root", "work "] {
            assert!(!text.lines().nth(2).unwrap().split(' ').any(|name| name == hidden), "{hidden}: {text}");
        }
    }
}

#[test]
fn a_grant_shows_more_and_never_keys() {
    let keep = tempfile::tempdir().unwrap();
    let home = keep.path();
    for (path, content) in [
        (".m2/settings", "granted"),
        ("all/.keep", "granted"),
        (".ssh/id_ed25519", "canary"),
        (".cargo/credentials.toml", "canary"),
        (".cargo/config.toml", "granted"),
        ("closed/file", "canary"),
    ] {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    open(home);
    let text = format!(
        "for f in .m2/settings all/.keep .ssh/id_ed25519 .cargo/credentials.toml .cargo/config.toml closed/file; do
            cat {0}/$f 2>/dev/null || echo nothing; echo \" $f\"; done; touch {0}/.m2/new 2>/dev/null || echo read-only",
        home.display()
    );
    for setting in settings() {
        let granted = script(&text).variable("HOME", home).with(|manifest| {
            // The whole of `.cargo` has keys in it.
            for grant in ["~/.m2:ro", "~/all:rw", "~/.cargo:ro"] {
                manifest.wall.grants.push(grant.parse().unwrap());
            }
        });
        let text = said(setting, granted);
        assert!(
            text.contains("granted .m2/settings") && text.contains("granted all/.keep"),
            "{setting:?}: {text}"
        );
        assert!(text.contains("granted .cargo/config.toml"), "{setting:?}: {text}");
        assert!(
            text.contains("nothing\n closed/file") && text.ends_with("read-only\n"),
            "{setting:?}: {text}"
        );
        assert!(!text.contains("canary"), "{setting:?}: {text}");
    }
}

#[test]
fn whatever_copies_attributes_goes_on_without_them() {
    let text = "cp -a marked a && cp --preserve=all marked b && install -p marked c && mv marked $TMPDIR/d && mv $TMPDIR/d d &&
        tar cf all.tar a b c d && mkdir out && tar xpf all.tar -C out && cp -rp out again && cat again/*";
    for setting in settings() {
        let dispatch = script(text).file("marked", "x");
        let marked = dispatch.work().join("marked");
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&marked, "user.mark", b"mark", flags).is_err() {
            return agora_testkit::part::skipped("the file system has no attributes");
        }
        let ended = setting.of(dispatch).run();
        ended.finished();
        let ran = ended.adapter_ran().unwrap();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("xxxx", ""), "{setting:?}");
    }
}

#[test]
fn what_the_files_of_others_tell_is_said() {
    for setting in settings() {
        let ended = setting.of(script("true")).run();
        let open = ended.finished().wall.leaves_open;
        let said = |what: &str| open.iter().any(|open| open.contains(what));
        let seen = setting.level == Level::Landlock;
        assert_eq!([said("where a link leads"), said("hearing when")], [seen; 2], "{setting:?}: {open:?}");
    }
}

/// Lets everybody read what is below: who may is then the wall's to say.
fn open(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let is_dir = path.is_dir();
    fs::set_permissions(path, fs::Permissions::from_mode(if is_dir { 0o777 } else { 0o666 })).unwrap();
    if is_dir {
        fs::read_dir(path).unwrap().for_each(|entry| open(&entry.unwrap().path()));
    }
}

#[test]
fn a_program_that_is_not_visible_is_said_to_want_a_grant() {
    let away = tempfile::tempdir().unwrap();
    let program = away.path().join("agent");
    fs::write(&program, "#!/bin/sh\necho ran\n").unwrap();
    open(away.path());
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for setting in settings() {
        let of = || {
            Dispatch::of(
                env!("CARGO_BIN_EXE_agora-worker"),
                json!({"runtime": "command", "command": [program.to_str().unwrap()]}),
            )
        };
        let ended = setting.of(of()).run();
        let failure = ended.failed();
        assert_eq!(failure.code, FailureCode::AgentNotStarted, "{setting:?}: {failure:?}");
        assert!(failure.hint.as_ref().unwrap().contains("`grant`"), "{failure:?}");
        let grant = format!("{}:ro", away.path().display()).parse().unwrap();
        let granted = of().with(|manifest| manifest.wall.grants.push(grant));
        assert_eq!(said(setting, granted), "ran\n", "{setting:?}");
    }
}
