//! Agents that fill whatever they can write to, in a home on a small disk: each is ended or refused while that can be recorded, the
//! person is told, and there is room again.

use std::path::{Path, PathBuf};

use agora_testkit::cli::{Cli, command, run};
use agora_testkit::part::skipped;

use super::command::{agent, configure, nothing_is_left};
use super::place::{DOCKER, PODMAN, socket};

/// A file system of so many bytes and files. The daemon sees it, too: it is mounted for the whole machine.
struct Disk(PathBuf);

impl Disk {
    fn mount(dir: &Path) -> Option<Self> {
        std::fs::create_dir_all(dir).unwrap();
        let mut mount = command("mount");
        let mounted =
            run(mount.args(["-t", "tmpfs", "-o", "size=96m,nr_inodes=3000", "agora-test"]).arg(dir));
        if mounted.code != Some(0) {
            skipped(&format!("no small disk can be made here: {}", mounted.stderr));
            return None;
        }
        Some(Self(dir.to_owned()))
    }

    /// Returns how many kibibytes and how many files are in use.
    fn used(&self) -> (u64, u64) {
        let about = rustix::fs::statvfs(&self.0).unwrap();
        ((about.f_blocks - about.f_bfree) * about.f_frsize / 1024, about.f_files - about.f_ffree)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let gone = run(command("umount").arg(&self.0));
        // A test that fails anyway may have left a container, which keeps it busy.
        if gone.code != Some(0) {
            let _ = run(command("umount").arg("--lazy").arg(&self.0));
        }
    }
}

/// Fills the workspace, in every way there is.
const FILLERS: [(&str, &str); 4] = [
    // So slowly that somebody can look in between.
    ("slowly", "n=0; while :; do head -c 1048576 /dev/zero > fill-$n; n=$((n+1)); sleep 0.05; done"),
    // Faster than anybody looks: what is left is taken in a few calls, to the last block.
    (
        "at-once",
        "for size in 16M 4M 1M 64K 4K; do n=0; while fallocate -l $size fill-$size-$n; do n=$((n+1)); done; done
         exec sleep 1000",
    ),
    // Without a byte: as many files as there can be.
    ("files", "mkdir d; cd d; n=0; while command : > $n; do n=$((n+1)); done; exec sleep 1000"),
    // By what it prints. It is the last, because that is kept.
    ("prints", "while :; do head -c 1048576 /dev/zero | tr '\\0' x; echo; done"),
];

fn whoever_fills_the_disk_is_ended(socket: &Path) {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let Some(disk) = Disk::mount(&cli.agora_home()) else { return };
    configure(&cli, socket, "");
    cli.run(&["image", "build", "--with", "tools,fallocate", "--target", "box"]).success();
    agent(&cli, "works", "echo done");
    for (name, script) in FILLERS {
        agent(&cli, name, script);
        let before = disk.used();
        let id = format!("d_{}", name.replace('-', ""));
        let run = ["dispatch", "run", "--target", "box", "--dispatch-id", &id, "--subagent", name];
        let told = cli.run(&run);
        assert_eq!(told.code, Some(1), "{name}: {}{}", told.stdout, told.stderr);
        assert!(told.stderr.contains("(provider-failed, disk-full)"), "{name}: {}", told.stderr);
        let lines = cli.run(&["dispatch", "watch", &id, "--json"]).success();
        let kinds: Vec<String> = lines.lines().map(kind_of).collect();
        assert_eq!(
            kinds,
            ["dispatch.accepted", "dispatch.started", "dispatch.failed", "thread.ended"],
            "{name}: {lines}"
        );
        nothing_is_left(&cli);
        let after = disk.used();
        // What stays is the record; of what was printed, also that.
        let kept = if name == "prints" { 88 << 10 } else { 4 << 10 };
        assert!(
            after.0 < before.0 + kept && after.1 < before.1 + 100,
            "{name}: kibibytes and files {before:?}, {after:?}"
        );
        let works = cli.run(&["dispatch", "run", "--target", "box", "--subagent", "works"]).success();
        assert!(works.contains("done"), "{name}: {works}");
    }
}

fn kind_of(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["kind"].as_str().unwrap().to_owned()
}

#[test]
fn docker_whoever_fills_the_disk_is_ended() {
    let Some(socket) = socket(DOCKER) else { return };
    whoever_fills_the_disk_is_ended(&socket);
}

#[test]
fn podman_whoever_fills_the_disk_is_ended() {
    let Some(socket) = socket(PODMAN) else { return };
    whoever_fills_the_disk_is_ended(&socket);
}

/// All that lies in memory together has no more room than the agent, and the worker lives to say how it went.
fn what_lies_in_memory_is_bounded(socket: &Path) {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    configure(&cli, socket, "memory = \"160MiB\"\n");
    cli.run(&["image", "build", "--with", "tools,fallocate", "--target", "box"]).success();
    let fills =
        "for dir in /tmp \"$TMPDIR\" \"$HOME\" /dev/shm /agora/aids / /etc /usr /dev /run /proc /sys; do
            head -c 300M /dev/zero > $dir/fill 2>/dev/null && echo \"filled $dir\"
        done; echo done";
    agent(&cli, "fills", fills);
    let run = ["dispatch", "run", "--target", "box", "--subagent", "fills", "--json"];
    let ended = cli.run(&run).json();
    assert_eq!((&ended["state"], ended["output"]["text"].as_str()), (&"finished".into(), Some("done\n")));
    nothing_is_left(&cli);
}

#[test]
fn docker_what_lies_in_memory_is_bounded() {
    let Some(socket) = socket(DOCKER) else { return };
    what_lies_in_memory_is_bounded(&socket);
}

#[test]
fn podman_what_lies_in_memory_is_bounded() {
    let Some(socket) = socket(PODMAN) else { return };
    what_lies_in_memory_is_bounded(&socket);
}
