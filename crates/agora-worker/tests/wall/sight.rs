//! What of the user's home an agent gets to see: by grants, by links on the path, and never a key.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agora_core::wall::{AGENT_ID, Level};
use agora_testkit::worker::Dispatch;

use super::support::{Setting, settings};

const CANARY: &str = "canary-5b1c";

fn script(text: &str) -> Dispatch {
    Dispatch::script(env!("CARGO_BIN_EXE_agora-worker"), text)
}

fn said(setting: Setting, dispatch: Dispatch) -> String {
    let ended = setting.of(dispatch).run();
    ended.finished();
    ended.adapter_ran().unwrap().stdout.clone()
}

/// A home that anybody may read: who does is the wall's to say.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new(files: &[(&str, &str)], links: &[(&str, &str)]) -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (path, content) in files {
            home.put(path, content);
        }
        for (link, target) in links {
            let link = home.path().join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(home.path().join(target), link).unwrap();
        }
        home
    }

    fn path(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap()
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn granted(home: &Path, grant: &str, text: &str) -> Dispatch {
    let grant = grant.parse().unwrap();
    script(text).variable("HOME", home).with(|manifest| manifest.wall.grants.push(grant))
}

#[test]
fn keys_behind_links_stay_out_of_sight_whatever_is_granted() {
    let files = [
        ("dotfiles/ssh/id", CANARY),
        ("dotfiles/cargo", CANARY),
        ("dotfiles/config/gh/hosts.yml", CANARY),
        ("dotfiles/vimrc", "granted"),
        ("notes", "granted"),
    ];
    let links = [
        (".ssh", "dotfiles/ssh"),
        (".cargo/credentials.toml", "dotfiles/cargo"),
        (".config", "dotfiles/config"),
        (".vimrc", "dotfiles/vimrc"),
    ];
    let home = Home::new(&files, &links);
    let root = home.path();
    let look = format!(
        "grep -rs . {0} {0}/dotfiles; cd {0}; cat dotfiles/vimrc .ssh/id .cargo/credentials.toml .config/gh/hosts.yml",
        root.display()
    );
    for setting in settings() {
        for grant in ["~:ro", "~:rw", "~/dotfiles:ro", "~/dotfiles:rw"] {
            let text = said(setting, granted(&root, grant, &format!("{look}; true")));
            assert!(!text.contains(CANARY), "{setting:?} {grant}: {text}");
            assert!(text.ends_with("granted"), "{setting:?} {grant}: {text}");
        }
        // A grant of what a link leads to is one of the key.
        let text = said(setting, granted(&root, "~/dotfiles/ssh:ro", &format!("{look}; true")));
        assert!(!text.contains(CANARY), "{setting:?}: {text}");
    }
}

#[test]
fn a_key_that_comes_later_does_not_show() {
    for setting in settings() {
        let home = Home::new(&[("notes", "granted"), (".config/nvim/init.lua", "granted")], &[]);
        let root = home.path();
        let text = format!(
            "cd {0} && cat notes .config/nvim/init.lua; touch \"$OLDPWD/ready\"; until test -e \"$OLDPWD/go\"; do :; done; \
             cat .kube/config .config/gh/hosts.yml 2>/dev/null; true",
            root.display()
        );
        let dispatch = setting.of(granted(&root, "~:ro", &text));
        let work = dispatch.work();
        let running = std::thread::spawn(|| dispatch.run());
        while !work.join("ready").exists() && !running.is_finished() {
            std::thread::yield_now();
        }
        home.put(".kube/config", CANARY);
        home.put(".config/gh/hosts.yml", CANARY);
        fs::write(work.join("go"), "").unwrap();
        let running = running.join().unwrap();
        running.finished();
        let text = running.adapter_ran().unwrap().stdout.clone();
        assert!(text.starts_with("grantedgranted") && !text.contains(CANARY), "{setting:?}: {text}");
    }
}

#[test]
fn where_a_key_would_show_that_comes_later_is_said() {
    for setting in settings() {
        let home = Home::new(&[("notes", "x"), (".config/nvim/init.lua", "x")], &[]);
        let root = home.path();
        let said = format!("keys and logins that come to be in `{}/.config` while it runs", root.display());
        for (grant, shows_whole) in [
            ("~/.config:rw", setting.level == Level::Namespaces),
            ("~:rw", setting.level == Level::Namespaces),
            ("~/.config:ro", false),
            ("~:ro", false),
            ("~/.config/nvim:rw", false),
        ] {
            let ended = setting.of(granted(&root, grant, "true")).run();
            let open = &ended.finished().wall.leaves_open;
            assert_eq!(open.contains(&said), shows_whole, "{setting:?} {grant}: {open:?}");
            assert_eq!(
                open.iter().any(|open| open.contains("come to be")),
                shows_whole,
                "{setting:?} {grant}"
            );
        }
    }
}

#[test]
fn a_link_on_the_path_shows_its_program_and_not_what_lies_beside_it() {
    let run = "#!/bin/sh\necho ran\n";
    let files = [
        ("Documents/foo.sh", run),
        ("Documents/taxes.txt", CANARY),
        (".config/t2.sh", run),
        (".config/rclone/rclone.conf", CANARY),
        (".local/share/pipx/venvs/black/bin/black", run),
        ("venvs/isort/bin/isort", "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/../lib/word\"\n"),
        ("venvs/isort/lib/word", "ran\n"),
    ];
    let links = [
        ("bin/foo", "Documents/foo.sh"),
        ("bin/t2", ".config/t2.sh"),
        (".local/bin/black", ".local/share/pipx/venvs/black/bin/black"),
        (".local/bin/isort", "venvs/isort/bin/isort"),
    ];
    let home = Home::new(&files, &links);
    let root = home.path();
    let path = format!("{0}/bin:{0}/.local/bin:/usr/bin:/bin", root.display());
    let text = format!(
        "foo; t2; black; isort; grep -rs {CANARY} {0}; cat {0}/Documents/taxes.txt; true",
        root.display()
    );
    for setting in settings() {
        let text = said(setting, script(&text).variable("HOME", &root).variable("PATH", &path));
        assert_eq!(text, "ran\nran\nran\nran\n", "{setting:?}");
    }
}

#[test]
fn a_room_has_everything_it_is_said_to_have_or_there_is_none() {
    let names: Vec<String> = (0..300).map(|number| format!("repository-{number}/objects")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let home = Home::new(&files, &[]);
    let root = home.path();
    let look = format!("ulimit -n; ls {}; echo well > /dev/null && ls /dev/urandom", root.display());
    for setting in settings().filter(|setting| setting.level == Level::Namespaces) {
        let run = |descriptors: &str| {
            let dispatch = script(&look).variable("HOME", &root).with(|manifest| {
                let grants = (0..300).map(|number| format!("~/repository-{number}:ro").parse().unwrap());
                manifest.wall.grants.extend(grants);
            });
            let words = [setting.words(), vec!["prlimit".to_owned(), format!("--nofile={descriptors}")]];
            let words = words.concat();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            setting.of(dispatch).through(&words).run()
        };
        let ended = run("256:4096");
        ended.finished();
        let text = &ended.adapter_ran().unwrap().stdout;
        assert!(text.starts_with("256\n") && text.ends_with("/dev/urandom\n"), "{setting:?}: {text}");
        assert_eq!(text.matches("repository-").count(), 300, "{setting:?}");
        let ended = run("256:256");
        let detail = &ended.failed().detail;
        assert!(detail.contains("open files"), "{setting:?}: {detail}");
    }
}

#[test]
fn the_way_to_the_workspace_is_opened_to_the_agent_alone() {
    for setting in settings().filter(|setting| setting.root && setting.level == Level::Landlock) {
        let dispatch = setting.of(script("echo x > made"));
        // As the engine makes it, closed.
        let dir = dispatch.dir();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let ended = dispatch.run();
        ended.finished();
        let about = fs::metadata(&dir).unwrap();
        assert_eq!((about.mode() & 0o777, about.gid()), (0o710, AGENT_ID), "others may go through");
    }
}

#[test]
fn the_agent_is_the_first_to_go_when_memory_is_short() {
    for setting in settings() {
        assert_eq!(said(setting, script("cat /proc/self/oom_score_adj")), "1000\n", "{setting:?}");
    }
}
