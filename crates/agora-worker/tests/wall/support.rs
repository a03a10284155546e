//! The settings in which every hostile program runs: as root or as an ordinary user, with namespaces or without.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown};
use std::path::Path;
use std::process::Command;

use agora_core::wall::Level;
use agora_testkit::part::skipped;
use agora_testkit::worker::Dispatch;

/// A user of no importance.
pub(crate) const USER: u32 = 60_123;

/// Who runs the worker, and what the machine allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) root: bool,
    pub(crate) level: Level,
}

pub(crate) const SETTINGS: [Setting; 4] = [
    Setting { root: true, level: Level::Namespaces },
    Setting { root: false, level: Level::Namespaces },
    Setting { root: true, level: Level::Landlock },
    Setting { root: false, level: Level::Landlock },
];

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the settings that this machine, and whoever runs the tests, can bring about.
pub(crate) fn settings() -> impl Iterator<Item = Setting> {
    SETTINGS.into_iter().filter(|setting| {
        let possible = possible(*setting);
        if !possible {
            skipped(&format!("{setting:?} cannot be brought about here"));
        }
        possible
    })
}

fn possible(setting: Setting) -> bool {
    // As an ordinary user one cannot be root; and root can be anybody.
    if setting.root && !is_root() {
        return false;
    }
    let words = setting.words();
    match words.split_first() {
        Some((program, arguments)) => {
            let tried = Command::new(program).args(arguments).arg("true").output();
            tried.is_ok_and(|output| output.status.success())
        }
        None => true,
    }
}

/// Takes namespaces away for good, by the kernel's own limits: they hold for the user namespace in which they are written.
const LIMITS: &str =
    "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_mnt_namespaces";

/// Root, in a user namespace that has all ids of the machine: only somebody outside it can say so.
const AS_ROOT: &str = r#"
import ctypes, os, sys
outside, inside = os.pipe(), os.pipe()
first = os.getpid()
if os.fork() == 0:
    os.read(outside[0], 1)
    for kind in "ug":
        with open(f"/proc/{first}/{kind}id_map", "w") as file: file.write("0 0 70000")
    os._exit(0)
if ctypes.CDLL(None).unshare(0x10000000) != 0: sys.exit("no user namespace")
os.write(outside[1], b"x")
os.wait()
for limit in ["user", "mnt"]:
    with open(f"/proc/sys/user/max_{limit}_namespaces", "w") as file: file.write("0")
os.execvp(sys.argv[1], sys.argv[1:])
"#;

impl Setting {
    /// Returns the program that runs a worker so.
    pub(crate) fn words(self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        if !self.root && is_root() {
            let (user, group) = (format!("--reuid={USER}"), format!("--regid={USER}"));
            add(&["setpriv", &user, &group, "--clear-groups"]);
        }
        match (self.level, self.root) {
            (Level::Landlock, true) => add(&["/usr/bin/python3", "-c", AS_ROOT]),
            (Level::Landlock, false) => {
                let limits = format!("{LIMITS} && exec setpriv --inh-caps=-all --ambient-caps=-all \"$@\"");
                add(&["unshare", "--map-current-user", "--keep-caps", "/bin/sh", "-c", &limits, "sh"]);
            }
            (Level::Namespaces | Level::None, _) => {}
        }
        words
    }

    /// Prepares a dispatch for it.
    pub(crate) fn of(self, dispatch: Dispatch) -> Dispatch {
        let words = self.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        fs::create_dir_all(dispatch.work()).unwrap();
        fs::create_dir_all(dispatch.dir().join("in")).unwrap();
        // What the engine makes so: its home is closed to others, but can be gone through.
        fs::set_permissions(dispatch.root(), fs::Permissions::from_mode(0o711)).unwrap();
        let dispatch = dispatch.through(&words);
        let _ = dispatch.bootstrap();
        if !self.root && is_root() {
            give(dispatch.root());
        }
        dispatch
    }
}

/// Makes the ordinary user the owner of everything below.
pub(crate) fn give(path: &Path) {
    if fs::symlink_metadata(path).unwrap().is_dir() {
        chown(path, Some(USER), Some(USER)).unwrap();
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    } else {
        lchown(path, Some(USER), Some(USER)).unwrap();
    }
}
