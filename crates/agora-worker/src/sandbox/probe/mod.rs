//! What isolation this machine offers, found by trying it.
//!
//! Version numbers and settings lie: a container may filter the calls, AppArmor may take the rights away after the
//! namespace was made. So each primitive is used once, in a process of its own that is thrown away, and settings
//! are read only to say *why* a try failed.
//!
//! [`probe`] starts that process; [`probe_in_this_process`] is what runs in it.

#[cfg(target_os = "linux")]
mod cause;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod filters;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod namespaces;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

#[cfg(target_os = "linux")]
use agora_core::wall;
use serde::{Deserialize, Serialize};

use crate::child::{Brief, HearError, Heard, hear};
#[cfg(target_os = "linux")]
use crate::sandbox::wall::Part;

/// A probe takes milliseconds; one that takes this long hangs in the kernel or is not our program.
const DEADLINE: Duration = Duration::from_secs(5);
/// A probe's line is about a kilobyte; paths and reasons in it are short.
const LONGEST_ANSWER: usize = 16 * 1024;
/// The version of Landlock that brought signals and abstract sockets.
#[cfg(target_os = "linux")]
const SCOPES: u32 = 6;
/// How much of the error text of a failed probe is worth showing.
const LONGEST_COMPLAINT: usize = 300;

/// What this machine offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// User, mount, PID, IPC and UTS namespaces, with a private file system and an own `/proc` inside.
    pub namespaces: Support,
    pub landlock: Landlock,
    pub seccomp: Support,
    pub cgroup: Cgroup,
    /// Whether a workspace can be layered over its base instead of copied.
    pub overlayfs_in_userns: Support,
    pub level: Level,
}

/// Whether one primitive works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "support", rename_all = "camelCase")]
pub enum Support {
    Yes,
    No(Refusal),
}

/// Whether Landlock works, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "support", rename_all = "camelCase")]
pub enum Landlock {
    Yes { abi: u32 },
    No(Refusal),
}

/// Where limits on memory and processes can be set, if anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "support", rename_all = "camelCase")]
pub enum Cgroup {
    /// New groups go below `parent`, which has both controllers switched on for them.
    V2 {
        parent: PathBuf,
    },
    /// New groups go below both, one for each controller.
    V1 {
        memory: PathBuf,
        pids: PathBuf,
    },
    No {
        why: String,
    },
}

/// Why a primitive does not work: for programs the cause, for people the sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub cause: Cause,
    pub why: String,
}

/// What stands in the way, as far as it can be known; each has its own remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    NotLinux,
    /// The probe was called in a process that already had several threads.
    SeveralThreads,
    /// `kernel.unprivileged_userns_clone = 0`, on older Debian kernels and hardened ones.
    UsernsCloneSysctl,
    /// `user.max_user_namespaces = 0`, or all of them are in use.
    UserNamespaceLimit,
    /// `kernel.apparmor_restrict_unprivileged_userns = 1`, the default since Ubuntu 24.04.
    AppArmor,
    /// A seccomp filter that was here before us, as containers have it.
    Filtered,
    /// The container covers parts of `/proc`, and the kernel then allows no fresh one.
    ProcMasked,
    /// The kernel was built without it, or is too old.
    KernelLacks,
    /// Built in, but not named in the kernel's `lsm=` parameter.
    DisabledAtBoot,
    /// It needs something else that is refused for its own reason.
    NeedsNamespaces,
    Other,
}

/// The strongest wall that can be built here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Namespaces, Landlock and seccomp.
    Namespaces,
    /// Landlock, seccomp and a subreaper; see [`Landlock::leaves_open`] for what that does not stop.
    Landlock,
    None,
}

#[cfg(any(target_os = "linux", test))]
impl Level {
    /// Every kernel with Landlock also has subreapers, so they are not asked about.
    fn of(namespaces: &Support, landlock: &Landlock, seccomp: &Support) -> Self {
        match (namespaces, landlock, seccomp) {
            (Support::Yes, Landlock::Yes { .. }, Support::Yes) => Self::Namespaces,
            (Support::No(_), Landlock::Yes { .. }, Support::Yes) => Self::Landlock,
            (_, Landlock::No(_), _) | (_, _, Support::No(_)) => Self::None,
        }
    }
}

impl Landlock {
    /// Returns what a program behind this Landlock alone, without namespaces, could still do.
    pub fn leaves_open(&self) -> Vec<&'static str> {
        let Self::Yes { abi } = self else { return vec!["everything"] };
        // The ABI that brought each restriction, from the kernel's `userspace-api/landlock.rst`.
        [
            (3, "truncating any file that its user may write"),
            (4, "TCP connections to any port"),
            (5, "device ioctls"),
            (6, "signals to other processes of its user"),
            (6, "abstract unix sockets"),
        ]
        .into_iter()
        .filter_map(|(since, what)| (*abi < since).then_some(what))
        .collect()
    }
}

impl Probe {
    /// Builds the report when nothing at all could be tried.
    fn nothing(refusal: &Refusal) -> Self {
        let no = || Support::No(refusal.clone());
        Self {
            namespaces: no(),
            landlock: Landlock::No(refusal.clone()),
            seccomp: no(),
            cgroup: Cgroup::No { why: refusal.why.clone() },
            overlayfs_in_userns: no(),
            level: Level::None,
        }
    }
}

/// Says why a part of the wall was refused, for a person.
#[cfg(target_os = "linux")]
pub(crate) fn explain(part: Part, error: rustix::io::Errno) -> String {
    let step = match part {
        Part::Namespaces => cause::Step::Unshare,
        Part::Proc => cause::Step::Proc,
        _ => cause::Step::Inside,
    };
    cause::Settings::read().explain(step, part.doing(), error).why
}

/// Returns what a program behind a wall could still do.
#[cfg(target_os = "linux")]
pub(crate) fn leaves_open(level: wall::Level, landlock: Option<u32>, network: wall::Network) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    if network == wall::Network::Open {
        open.push("the network, also the machine's own ports".to_owned());
    }
    let abi = landlock.unwrap_or_default();
    match level {
        wall::Level::Namespaces if network == wall::Network::Open && abi < SCOPES => {
            open.push("abstract unix sockets".to_owned());
        }
        wall::Level::Namespaces | wall::Level::None => {}
        wall::Level::Landlock => {
            let sockets = |what: &&str| !what.contains("unix sockets") && !what.contains("TCP");
            open.extend(Landlock::Yes { abi }.leaves_open().into_iter().filter(sockets).map(str::to_owned));
            open.push("seeing which processes run, and with which arguments".to_owned());
            // No version of Landlock has rights for these.
            open.push(
                "seeing that a file exists, its size, its dates and its attributes, and where a link leads"
                    .to_owned(),
            );
            open.push("hearing when a file that its user may read is opened or changed".to_owned());
            open.push("changing the modes and dates of files of its user".to_owned());
            open.push("changing how soon other processes of its user run".to_owned());
        }
    }
    open
}

/// Why there is no report at all.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("the sandbox could not be probed")]
    Hear(#[source] HearError),
    #[error("the probe ended with {status}: {complaint}")]
    Failed { status: ExitStatus, complaint: String },
    #[error("the probe's answer is not a report")]
    Unreadable(#[source] serde_json::Error),
}

/// Returns what this machine offers, by letting `own_executable worker probe` try it.
///
/// A process of its own, because the tries cannot be undone and a user namespace wants a single thread.
pub fn probe(own_executable: &Path) -> Result<Probe, ProbeError> {
    let brief = Brief {
        program: own_executable.to_owned(),
        arguments: vec!["worker".into(), "probe".into()],
        environment: Vec::new(),
        deadline: DEADLINE,
        keep: LONGEST_ANSWER,
    };
    let Heard { status, stdout, stderr } = hear(&brief).map_err(ProbeError::Hear)?;
    if !status.success() {
        let complaint: String =
            String::from_utf8_lossy(&stderr).trim().chars().take(LONGEST_COMPLAINT).collect();
        return Err(ProbeError::Failed { status, complaint });
    }
    serde_json::from_slice(&stdout).map_err(ProbeError::Unreadable)
}

/// Tries everything in the calling process, which is not fit for anything but printing the report afterwards:
/// it has left its namespaces, may open no file for writing and has a filter on its system calls.
///
/// Wants a process with a single thread, and says so in the report when there are more.
#[cfg(target_os = "linux")]
pub fn probe_in_this_process() -> Probe {
    linux::probe_in_this_process()
}

/// Says that the sandbox is made of Linux parts.
#[cfg(not(target_os = "linux"))]
pub fn probe_in_this_process() -> Probe {
    let why = "the sandbox needs Linux; here, work runs in Docker or Podman".to_owned();
    Probe::nothing(&Refusal { cause: Cause::NotLinux, why })
}

#[cfg(test)]
mod tests;
