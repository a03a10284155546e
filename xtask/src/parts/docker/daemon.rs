//! A daemon of our own, Docker's or Podman's: all its state in one directory, gone when the run ends.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{self, Child},
    time::Duration,
};

use super::api;
use crate::{
    environment,
    failure::Failure,
    parts::Privilege,
    process::{ends_within, last_lines},
    stopwatch::poll,
};

/// A start takes about one second; a busy machine gets a minute.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The daemon gives its containers ten seconds to end.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// The kernel has room for 107 bytes in the path of a socket.
const LONGEST_SOCKET: usize = 100;

/// What a daemon is not told by its arguments. Where root may not raise a limit, Podman must not try; of its runtimes this one is
/// Docker's; and without systemd it makes control groups itself.
const PODMAN_CONFIG: &str = "\
[containers]
default_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]
[engine]
runtime = \"runc\"
cgroup_manager = \"cgroupfs\"
";

/// Runs a daemon that also ends when we are killed, where that is possible. What it makes is for our group, too.
const START: &str = r#"
umask 007
echo $$ > "$1"; shift
daemon=$1; shift
if command -v setpriv >/dev/null; then exec setpriv --pdeathsig TERM "$daemon" "$@"; fi
exec "$daemon" "$@"
"#;

/// Lets whoever a directory belongs to speak to a daemon.
const SHARE: &str = r#"chown --reference "$1" "$2""#;

/// Whose daemon it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::parts) enum Kind {
    Docker,
    Podman,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Docker => "agora-docker-",
            Self::Podman => "agora-podman-",
        }
    }

    fn arguments(self, directory: &Path) -> Vec<OsString> {
        let socket = format!("unix://{}", socket_in(directory).display());
        let path = |name: &str| directory.join(name).into_os_string();
        match self {
            Self::Docker => vec![
                "--data-root".into(),
                path("data"),
                "--exec-root".into(),
                path("exec"),
                "--pidfile".into(),
                path("dockerd.pid"),
                "--host".into(),
                socket.into(),
                // Our group, so that tests that do not run as root can connect.
                "--group".into(),
                rustix::process::getegid().as_raw().to_string().into(),
                // Neither is to be had in many CI containers.
                "--iptables=false".into(),
                "--bridge=none".into(),
            ],
            Self::Podman => vec![
                "--root".into(),
                path("root"),
                "--runroot".into(),
                path("run"),
                "system".into(),
                "service".into(),
                "--time".into(),
                "0".into(),
                socket.into(),
            ],
        }
    }
}

/// A daemon that runs until this is dropped.
///
/// Ctrl-C reaches it by itself, since it is in our process group. The directory that an interrupted run leaves behind
/// is removed by the next one.
#[derive(Debug)]
pub(in crate::parts) struct Daemon {
    child: Child,
    directory: PathBuf,
    privilege: Privilege,
    is_stopped: bool,
}

impl Daemon {
    pub(super) fn start(kind: Kind, privilege: Privilege, program: &Path) -> Result<Self, Failure> {
        let not_root = || Failure::new("a daemon of our own needs root");
        let runner = privilege.program().ok_or_else(not_root)?;
        let temporary = short_temporary_directory();
        remove_left_behind(privilege, &temporary);

        let directory = temporary.join(format!("{}{}", kind.prefix(), process::id()));
        // What is made in there belongs to our group.
        let create = fs::DirBuilder::new().mode(0o2700).create(&directory);
        create.map_err(|source| Failure::file("create", &directory, &source))?;
        let log = directory.join("log");
        let log = File::create(&log).map_err(|source| Failure::file("create", &log, &source))?;

        let mut path = OsString::from("PATH=");
        path.push(environment::search_path());
        let config = directory.join("containers.conf");
        fs::write(&config, PODMAN_CONFIG).map_err(|source| Failure::file("write", &config, &source))?;
        let mut configured = OsString::from("CONTAINERS_CONF=");
        configured.push(&config);
        let child = runner
            .arg(path)
            .arg(configured)
            .args(["sh", "-c", START, "sh"])
            .arg(directory.join("pid"))
            .arg(program)
            .args(kind.arguments(&directory))
            .start(log)?;
        let mut daemon = Self { child, directory, privilege, is_stopped: false };
        daemon.wait_until_it_answers()?;
        Ok(daemon)
    }

    pub(super) fn socket(&self) -> PathBuf {
        socket_in(&self.directory)
    }

    /// Stops the daemon and removes its state.
    pub(in crate::parts) fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn wait_until_it_answers(&mut self) -> Result<(), Failure> {
        let socket = self.socket();
        let answered = poll(START_LIMIT, || {
            if self.privilege == Privilege::Sudo && socket.exists() {
                // Podman's is for root alone.
                drop(as_root(self.privilege, SHARE, [self.directory.as_os_str(), socket.as_os_str()]));
            }
            let answers = api::version(&socket).is_ok();
            let ended = !matches!(self.child.try_wait(), Ok(None));
            (answers || ended).then_some(answers)
        });
        if answered == Some(true) {
            return Ok(());
        }
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        Err(Failure::new("the daemon did not start").because(last_lines(&log)))
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.is_stopped {
            return Ok(());
        }
        self.is_stopped = true;
        for signal in ["TERM", "KILL"] {
            // Already ended, as after Ctrl-C, is as good as stopped.
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            self.signal(signal)?;
            if ends_within(&mut self.child, STOP_LIMIT) {
                break;
            }
        }
        remove(self.privilege, &self.directory)
    }

    /// The pid is the daemon's own word: through `sudo`, our child is only its parent.
    fn signal(&self, signal: &str) -> Result<(), Failure> {
        let written = fs::read_to_string(self.directory.join("pid")).ok();
        let pid = written.map_or_else(|| self.child.id().to_string(), |pid| pid.trim().to_owned());
        as_root(self.privilege, r#"kill -s "$1" "$2""#, [signal.as_ref(), pid.as_ref()])
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Only reached when something else failed, which is what the user has to read.
        drop(self.end());
    }
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("socket")
}

fn short_temporary_directory() -> PathBuf {
    let usual = env::temp_dir();
    // The daemon makes sockets of its own below its directory.
    let longest_name = format!("{}4194304/exec/containerd/containerd.sock.ttrpc", Kind::Docker.prefix());
    let is_short = usual.join(longest_name).as_os_str().len() <= LONGEST_SOCKET;
    if is_short { usual } else { "/tmp".into() }
}

fn remove_left_behind(privilege: Privilege, temporary: &Path) {
    let entries = fs::read_dir(temporary).into_iter().flatten().flatten();
    for directory in entries.map(|entry| entry.path()).filter(|path| is_left_behind(path)) {
        // One that cannot be removed belongs to somebody else.
        drop(remove(privilege, &directory));
    }
}

fn is_left_behind(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let of = |kind: Kind| name.strip_prefix(kind.prefix());
    let pid = of(Kind::Docker).or_else(|| of(Kind::Podman)).and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Removes a daemon's state. One that was killed leaves mounts behind, without which nothing can be removed.
fn remove(privilege: Privilege, directory: &Path) -> Result<(), Failure> {
    const REMOVE: &str = r#"
        grep -o " $1/[^ ]*" /proc/self/mounts | sort -r | while read -r mount; do umount -l "$mount"; done
        rm -rf "$1"
    "#;
    as_root(privilege, REMOVE, [directory.as_os_str()])
}

fn as_root<'a>(
    privilege: Privilege,
    script: &str,
    arguments: impl IntoIterator<Item = &'a std::ffi::OsStr>,
) -> Result<(), Failure> {
    let runner = privilege.program().ok_or_else(|| Failure::new("this needs root"))?;
    runner.args(["sh", "-c", script, "sh"]).args(arguments).run_quietly().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::{Kind, Path, is_left_behind, process};

    #[test]
    fn only_the_directory_of_a_dead_run_is_left_behind() {
        let of = |pid: &str| format!("/tmp/{}{pid}", Kind::Podman.prefix());
        assert!(is_left_behind(Path::new(&of("4194305"))), "no process can have this id");
        assert!(!is_left_behind(Path::new(&of(&process::id().to_string()))));
        assert!(!is_left_behind(Path::new(&of("not-a-pid"))));
        assert!(!is_left_behind(Path::new("/tmp/other")));
    }
}
