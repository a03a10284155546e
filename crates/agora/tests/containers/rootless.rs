//! Podman of somebody who is not root, and agora for the same person.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use agora_testkit::cli::{Ran, command, run};
use agora_testkit::part::skipped;
use serde_json::Value;
use tempfile::TempDir;

use super::place::{PODMAN, socket};

/// A user of no importance.
const USER: &str = "60124";

/// Starts the service for a user who is in no list of the machine, but in lists that only the service sees. It is the first of its
/// processes, which ends with us, and with it everything goes that Podman leaves running.
const START: &str = r#"
set -e
cd "$1"
(cat /etc/passwd; echo "somebody:x:$2:$2::$1/home:/bin/sh") > passwd
(cat /etc/group; echo "somebody:x:$2:") > group
echo "somebody:300000:65536" > subids
for name in passwd:passwd group:group subids:subuid subids:subgid; do mount --bind "${name%:*}" "/etc/${name#*:}"; done
export HOME=$1/home XDG_RUNTIME_DIR=$1/run CONTAINERS_CONF=$1/containers.conf USER=somebody
exec setpriv --pdeathsig KILL --reuid "$2" --regid "$2" --clear-groups \
    podman --storage-driver vfs --root "$1/root" --runroot "$1/run/podman" system service --time 0 "unix://$1/socket"
"#;

/// As for root: where a limit may not be raised, and without systemd.
const CONFIG: &str = "\
[containers]
default_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]
[engine]
runtime = \"runc\"
cgroup_manager = \"cgroupfs\"
";

/// A user's Podman, and what that user has.
struct Somebody {
    dir: TempDir,
    service: Child,
}

impl Somebody {
    fn begin() -> Option<Self> {
        socket(PODMAN)?;
        if !rustix::process::geteuid().is_root() {
            skipped("only root can be somebody else");
            return None;
        }
        // Short: a socket's path has 107 bytes.
        let dir = tempfile::Builder::new().prefix("agora-rl").tempdir().unwrap();
        std::fs::write(dir.path().join("containers.conf"), CONFIG).unwrap();
        for name in ["home", "run", "agora", "home/.config", "home/.config/agora"] {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let user = USER.parse().ok();
            chown(&path, user, user).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        }
        let user = USER.parse().ok();
        chown(dir.path(), user, user).unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        // Where the build is, another user may not look.
        std::fs::copy(env!("CARGO_BIN_EXE_agora"), dir.path().join("bin")).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut unshare = command("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", START, "sh"]);
        unshare.arg(dir.path()).arg(USER).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let service = unshare.spawn().unwrap();
        let mut somebody = Self { dir, service };
        while UnixStream::connect(somebody.socket()).is_err() {
            let ended = somebody.service.try_wait().unwrap();
            let log = std::fs::read_to_string(somebody.dir.path().join("log")).unwrap();
            assert!(ended.is_none(), "the service did not start: {log}");
            std::thread::yield_now();
        }
        Some(somebody)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn configure(&self, more: &str) {
        // What a container reaches over the network is set up by the machine's owner, not by us.
        let text = format!(
            "[target.box]\ncompute = \"podman\"\nsocket = \"{}\"\nnetwork = \"none\"\n{more}",
            self.socket().display()
        );
        std::fs::write(self.dir.path().join("home/.config/agora/agora.toml"), text).unwrap();
    }

    fn agora(&self, arguments: &[&str]) -> Ran {
        let mut agora = command("setpriv");
        agora.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(self.dir.path().join("bin"));
        agora.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        agora.env("HOME", self.dir.path().join("home")).env("AGORA_HOME", self.dir.path().join("agora"));
        run(agora.current_dir(self.dir.path().join("home")))
    }

    fn runs(&self, name: &str, script: &str) -> Value {
        let register =
            ["subagent", "register", "--name", name, "--runtime", "command", "--", "/bin/sh", "-c"];
        self.agora(&[&register[..], &[script]].concat()).success();
        let ran = self.agora(&["dispatch", "run", "--target", "box", "--subagent", name, "--json"]);
        serde_json::from_str(&ran.stdout).unwrap()
    }
}

impl Drop for Somebody {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// Sees that nothing below a directory belongs to anybody else.
fn is_all_theirs(dir: &Path) {
    let about = std::fs::symlink_metadata(dir).unwrap();
    assert_eq!(about.uid().to_string(), USER, "{}", dir.display());
    if about.is_dir() {
        std::fs::read_dir(dir).unwrap().for_each(|entry| is_all_theirs(&entry.unwrap().path()));
    }
}

/// The worker is the user also inside, has nobody's rights, and what it leaves is the user's to read and to take away. The memory that
/// an agent may have is counted by its guard where the user has no control groups.
#[test]
fn podman_of_somebody_who_is_not_root_works() {
    let Some(somebody) = Somebody::begin() else { return };
    somebody.configure("");
    somebody.agora(&["image", "build", "--with", "tools,prlimit", "--target", "box"]).success();
    let script = "id -u; grep CapBnd /proc/self/status; echo line >> made
        mkdir closed; chmod 000 closed /agora/out
        touch /agora/in/x 2>/dev/null && echo got in
        touch /x 2>/dev/null && echo got root
        prlimit --pid 1 --cpu=1 2>/dev/null && echo got worker
        head -c 1 /proc/1/environ >/dev/null 2>&1 && echo got environment; true";
    let ended = somebody.runs("works", script);
    assert_eq!(ended["state"], "finished", "{ended}");
    assert_eq!(ended["output"]["text"], format!("{USER}\nCapBnd:\t0000000000000000\n"), "{ended}");
    let id = ended["dispatchId"].as_str().unwrap();
    let again: Value = serde_json::from_str(&somebody.agora(&["continue", id, "--json"]).stdout).unwrap();
    assert_eq!(again["state"], "finished", "{again}");
    is_all_theirs(&somebody.dir.path().join("agora"));
    somebody.configure("memory = \"96MiB\"\n");
    let eats = somebody.runs("eats", "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo \"${#x}\"");
    assert_eq!(eats["failure"]["code"], "out-of-memory", "{eats}");
    let swept: Value = serde_json::from_str(&somebody.agora(&["gc", "--dry-run", "--json"]).stdout).unwrap();
    assert_eq!(swept["leftovers"], serde_json::json!([]), "{swept}");
}
