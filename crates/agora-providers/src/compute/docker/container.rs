//! What a worker's container is made of: as little as it can be.

use std::collections::HashMap;

use agora_core::provider::compute::Launch;
use agora_core::wall::{AGENT_ID, Network, PROCESSES};
use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType};

use super::client::{Connected, Kind};
use super::config::ContainerSettings;
use crate::dispatch_dir::DispatchDir;

/// Where the worker finds its place.
pub(super) const ROOT: &str = "/agora";
/// The worker's program in every image.
pub(super) const PROGRAM: &str = "/usr/local/bin/agora";
/// Which home's a container is.
pub(super) const HOME_LABEL: &str = "dev.agora.home";
pub(super) const DISPATCH_LABEL: &str = "dev.agora.dispatch";
const THREAD_LABEL: &str = "dev.agora.thread";

/// Where programs are in an image.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What can be written beside the mounts, in memory: the size of each at most, and its share of the agent's memory where that is limited,
/// in sixteenths. Together with what programs share they have no more than that: what lies there stays when the agent is ended, and the
/// worker needs memory to say why.
const SCRATCH: [(&str, u64, u64); 3] =
    [("/agora/home", 4 << 30, 7), ("/agora/tmp", 4 << 30, 4), ("/tmp", 4 << 30, 4)];
/// What the worker alone writes there.
const AIDS: (&str, u64) = ("/agora/aids", 256 << 20);
/// For everybody, because nobody else is there.
const SCRATCH_OPTIONS: &str = "rw,exec,nosuid,nodev,mode=1777";
/// `/dev/shm`: as much as Docker gives unasked, and its share.
const SHARED: (u64, u64) = (64 << 20, 1);
/// What the worker itself needs beside the agent: with less, the agent's own limit would end the worker.
const WORKER_BYTES: u64 = 64 << 20;
/// The same for processes: the worker, its threads and a guard.
const WORKER_PROCESSES: u32 = 16;

/// Whom a worker is in its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) id: u32,
    pub(super) group: u32,
}

impl User {
    /// The one who starts it, who owns the mounts; for root somebody who is nobody.
    pub(super) fn of_this_process() -> Self {
        let id = rustix::process::geteuid().as_raw();
        if id == 0 {
            Self { id: AGENT_ID, group: AGENT_ID }
        } else {
            Self { id, group: rustix::process::getegid().as_raw() }
        }
    }

    /// Returns whom the mounts must be given to, when it is not us.
    pub(super) fn other_than_us(self) -> Option<u32> {
        (rustix::process::geteuid().as_raw() != self.id).then_some(self.id)
    }
}

/// Describes the container.
pub(super) fn describe(
    launch: &Launch,
    dir: &DispatchDir,
    image: &str,
    home: &str,
    settings: &ContainerSettings,
    daemon: &Connected,
) -> ContainerCreateBody {
    let labels = [
        (HOME_LABEL, home),
        (DISPATCH_LABEL, launch.dispatch_id.as_str()),
        (THREAD_LABEL, launch.thread_id.as_str()),
    ];
    let env = [
        ("PATH", PATH),
        ("LANG", "C.UTF-8"),
        ("AGORA_DISPATCH_ID", launch.dispatch_id.as_str()),
        ("AGORA_DISPATCH_DIR", ROOT),
        ("AGORA_ADAPTER", &launch.runtime),
    ];
    ContainerCreateBody {
        image: Some(image.to_owned()),
        user: Some(user(daemon)),
        entrypoint: Some([PROGRAM, "worker", "contained"].map(str::to_owned).to_vec()),
        cmd: Some(Vec::new()),
        env: Some(env.map(|(name, value)| format!("{name}={value}")).to_vec()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        working_dir: Some("/".to_owned()),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // Should the starter die, the worker's input ends, and it does nothing.
        stdin_once: Some(true),
        network_disabled: (settings.network == Network::None).then_some(true),
        host_config: Some(host_config(launch, dir, settings, daemon)),
        ..ContainerCreateBody::default()
    }
}

/// A daemon without root cannot be somebody else: its root is the user, and has no more rights.
fn user(daemon: &Connected) -> String {
    let User { id, group } = User::of_this_process();
    match (daemon.rootless, daemon.kind) {
        (true, Kind::Docker) => "0:0".to_owned(),
        (true, Kind::Podman) | (false, _) => format!("{id}:{group}"),
    }
}

fn host_config(
    launch: &Launch,
    dir: &DispatchDir,
    settings: &ContainerSettings,
    daemon: &Connected,
) -> HostConfig {
    let memory = launch.limits.memory_bytes.map(|bytes| signed(bytes.saturating_add(WORKER_BYTES)));
    let processes = launch.limits.processes.unwrap_or(PROCESSES).saturating_add(WORKER_PROCESSES);
    let mount = |from: std::path::PathBuf, to: &str, read_only: bool| Mount {
        typ: Some(MountType::BIND),
        source: Some(from.to_string_lossy().into_owned()),
        target: Some(format!("{ROOT}/{to}")),
        read_only: Some(read_only),
        ..Mount::default()
    };
    let scratch =
        SCRATCH.into_iter().map(|(path, most, share)| (path, size(most, share, launch.limits.memory_bytes)));
    let in_memory = |(path, size): (&str, u64)| (path.to_owned(), options(size, daemon.kind));
    HostConfig {
        mounts: Some(vec![
            mount(dir.given(), "in", true),
            mount(dir.out(), "out", false),
            mount(dir.work(), "work", false),
        ]),
        tmpfs: Some(scratch.chain([AIDS]).map(in_memory).collect()),
        shm_size: Some(signed(size(SHARED.0, SHARED.1, launch.limits.memory_bytes))),
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        privileged: Some(false),
        memory,
        // The same: no swap beside it.
        memory_swap: memory,
        pids_limit: Some(processes.into()),
        nano_cpus: settings.milli_cpus.map(|cpus| i64::from(cpus) * 1_000_000),
        network_mode: (settings.network == Network::None).then(|| "none".to_owned()),
        ipc_mode: Some("private".to_owned()),
        userns_mode: (daemon.rootless && daemon.kind == Kind::Podman).then(|| "keep-id".to_owned()),
        // What a worker says goes to files. Only one that cannot open them says something here, to whoever starts it.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: Some(HashMap::new()) }),
        init: Some(false),
        ..HostConfig::default()
    }
}

/// Says how large something in memory may grow.
fn size(most: u64, share: u64, memory: Option<u64>) -> u64 {
    memory.map_or(most, |memory| most.min(memory / 16 * share))
}

/// Podman would lay what the image has there over it, with whom that belongs to.
fn options(size: u64, kind: Kind) -> String {
    let options = format!("{SCRATCH_OPTIONS},size={size}");
    match kind {
        Kind::Docker => options,
        Kind::Podman => format!("{options},notmpcopyup"),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_in_memory_never_takes_the_workers_own() {
        let sum = |memory| {
            let files: u64 = SCRATCH.iter().map(|(_, most, share)| size(*most, *share, memory)).sum();
            files + size(SHARED.0, SHARED.1, memory)
        };
        for memory in [16 << 20, 96 << 20, 1 << 30, 64 << 30] {
            assert!(sum(Some(memory)) <= memory, "{memory}: {}", sum(Some(memory)));
        }
        assert_eq!(size(4 << 30, 6, None), 4 << 30);
    }
}
