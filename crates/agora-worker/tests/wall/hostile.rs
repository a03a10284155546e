//! One program that tries everything once, and prints what it reached.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::chown;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use agora_core::wall::{AGENT_ID, Level};
use agora_testkit::part::skipped;
use agora_testkit::worker::Dispatch;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::support::{Setting, USER, give, is_root, settings};

const PYTHON: &str = "/usr/bin/python3";

/// Every attempt is a function that returns when it has reached what it must not, and raises otherwise.
const ATTEMPTS: &str = r#"
import ctypes, fcntl, os, signal, socket, sys, glob, json
libc = ctypes.CDLL(None, use_errno=True)
spec = json.load(open(".agora/input.json"))
# Before anything is opened here; one of them is the list itself.
given = [fd for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}")]
root, worker, neighbour = spec["root"], spec["worker"], spec["neighbour"]

def call(number, *arguments):
    ctypes.set_errno(0)
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "syscall")

def read(path):
    with open(path, "rb") as file: return file.read(64)

def write(path):
    with open(path, "w") as file: file.write("hostile")

def outside():
    "The worker and its guard, by whatever way they can be seen."
    return [worker] if os.path.exists(f"/proc/{worker}") else []

def any_of(what, attempt):
    reached = False
    for one in what:
        try: attempt(one); reached = True
        except OSError: pass
    if not reached: raise OSError(1, "none")

def signal_worker():
    if worker == os.getpid() or worker == 1: raise OSError(3, "another one")
    os.kill(worker, 0); os.kill(worker, signal.SIGTERM)

def connect(address):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM); one.connect(address)

def datagram(address):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); one.sendto(b"x", address)

def everybody():
    "Whoever could be reached by a number: the worker, a process of the agent's own user, and who is above the agent."
    return [worker, neighbour, 1, os.getppid()]

def limit(pid):
    call(302, pid, 0, ctypes.byref((ctypes.c_ulonglong * 2)(1 << 40, 1 << 40)), None)

def take_descriptor(pid):
    handle = libc.syscall(434, pid, 0)
    if handle < 0: raise OSError(ctypes.get_errno(), "pidfd")
    call(438, handle, 0, 0)

def read_memory(pid):
    local, remote = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8), (ctypes.c_void_p * 2)(0x400000, 8)
    call(310, pid, local, 1, remote, 1, 0)

def attach_memory():
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(spec["memory"], None, 0)
    if at in (None, ctypes.c_void_p(-1).value): raise OSError(1, "no")

def open_queue():
    if libc.mq_open(spec["queue"].encode(), os.O_RDWR) < 0: raise OSError(1, "no")

def kill_by_letter():
    "Asks the kernel to kill the neighbour when something can be read. Nobody tells whether it did, but the neighbour's death."
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    fcntl.fcntl(one, fcntl.F_SETOWN, neighbour); fcntl.fcntl(one, 10, signal.SIGKILL)
    fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); other.send(b"x")
    raise OSError(1, "nobody tells")

def inherited():
    if not given: raise OSError(1, "none")

def setuid():
    import subprocess
    path = "/workspace/.." if False else "suid"
    out = subprocess.run(["/bin/su", "-c", "id -u"], capture_output=True, stdin=subprocess.DEVNULL, timeout=20)
    if out.stdout.strip() != b"0": raise OSError(1, "no")

attempts = {
    "ledger": lambda: read(f"{root}/ledger"),
    "secrets": lambda: read(f"{root}/secrets/one"),
    "other dispatch": lambda: read(f"{root}/other/work/file"),
    "list the others": lambda: os.listdir(f"{root}/other"),
    "in": lambda: os.listdir(f"{root}/dispatch/in"),
    "out": lambda: os.listdir(f"{root}/dispatch/out"),
    "outcome": lambda: write(f"{root}/dispatch/out/outcome.json"),
    "outcome beside the workspace": lambda: write("../out/outcome.json"),
    "bundles": lambda: os.listdir(f"{root}/store"),
    "worker memory": lambda: any_of(outside(), lambda pid: open(f"/proc/{pid}/mem", "rb")),
    "worker environment": lambda: any_of(outside(), lambda pid: read(f"/proc/{pid}/environ")),
    "worker descriptors": lambda: any_of(outside(), lambda pid: os.listdir(f"/proc/{pid}/fd")),
    "first process memory": lambda: open("/proc/1/mem", "rb"),
    "parent memory": lambda: open(f"/proc/{os.getppid()}/mem", "rb"),
    "signal the worker": signal_worker,
    "trace the worker": lambda: any_of(outside(), lambda pid: call(101, 16, pid, 0, 0)),
    "trace the parent": lambda: call(101, 16, os.getppid(), 0, 0),
    "mount": lambda: call(165, b"x", b"/tmp", b"tmpfs", 0, 0),
    "new mount": lambda: call(430, b"tmpfs", 0),
    "unshare": lambda: call(272, 0x10000000),
    "clone": lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0),
    "setns": lambda: call(308, 0, 0),
    "chroot": lambda: call(161, b"/tmp"),
    "bpf": lambda: call(321, 0, 0, 0),
    "keys": lambda: call(250, 0, 0),
    "io_uring": lambda: call(425, 1, 0),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "write /": lambda: write("/hostile"),
    "write /etc": lambda: write("/etc/hostile"),
    "write /usr": lambda: write("/usr/hostile"),
    "write the home": lambda: write(f"{root}/hostile"),
    "unix socket": lambda: connect(f"{root}/socket"),
    "unix datagram": lambda: datagram(f"{root}/datagram"),
    "abstract socket": lambda: connect("\0" + spec["abstract"]),
    "become root": lambda: os.setuid(0) or (_ for _ in ()).throw(OSError(1, "was")) if os.getuid() == 0 else os.setuid(0),
    "setuid program": setuid,
    "terminal": lambda: os.close(os.open(spec["terminal"], os.O_RDWR | os.O_NOCTTY)),
    "device": lambda: os.mknod("/tmp/device", 0o20666, 0x103),
    "limits of others": lambda: any_of(everybody(), limit),
    "memory of a crash": lambda: call(302, 0, 4, ctypes.byref((ctypes.c_ulonglong * 2)(1 << 20, 1 << 20)), None),
    "descriptors of others": lambda: any_of(everybody(), take_descriptor),
    "memory of others": lambda: any_of(everybody(), read_memory),
    "environment of others": lambda: any_of(everybody(), lambda pid: read(f"/proc/{pid}/environ")),
    "rank of others": lambda: any_of(everybody(), lambda pid: open(f"/proc/{pid}/oom_score_adj", "w").write("1000")),
    "signal others": lambda: any_of([neighbour, 1, os.getppid()], lambda pid: os.kill(pid, 0)),
    "signal by letter": kill_by_letter,
    "shared memory": attach_memory,
    "queue": open_queue,
    "inherited descriptors": inherited,
    "settings of the kernel": lambda: any_of(["kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory"],
        lambda name: write(f"/proc/sys/{name}")),
    "groups": lambda: any_of(glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)[:9] + ["/sys/fs/cgroup/x"], write),
    "log of the kernel": lambda: open("/dev/kmsg"),
    "link to what is outside": lambda: any_of([f"{root}/ledger", "/etc/passwd"], lambda path: os.link(path, "linked")),
    "attributes of what is outside": lambda: any_of([f"{root}/ledger", f"{root}/dispatch/out", f"{root}/other/work/file"],
        lambda path: os.setxattr(path, "user.mark", b"x")),
    "faults": lambda: call(323, 0),
    "counters": lambda: call(298, ctypes.byref(ctypes.create_string_buffer(128)), 0, -1, -1, 0),
    "handles": lambda: call(304, -100, 0, 0),
    "packets": lambda: socket.socket(17, socket.SOCK_RAW),
    "devices that come": lambda: socket.socket(16, socket.SOCK_RAW, 15),
    "pair of a rare family": lambda: socket.socketpair(30, 5, 0),
    "type into the terminal": lambda: fcntl.ioctl(0, 0x5412, b"x"),
}
for name, attempt in attempts.items():
    try:
        attempt(); print(f"REACHED {name}", flush=True)
    except (OSError, PermissionError) as error:
        print(f"refused {name}", flush=True)
write("allowed"); write(os.environ["HOME"] + "/allowed"); write(os.environ["TMPDIR"] + "/allowed")
print(json.dumps({"seq": 99, "kind": "dispatch.finished", "dispatchId": "d_1", "durationMs": 1}), flush=True)
print(json.dumps({"seq": 99, "kind": "dispatch.finished", "dispatchId": "d_1", "durationMs": 1}), file=sys.stderr, flush=True)
caps = [line for line in open("/proc/self/status") if line.startswith(("CapEff", "CapPrm", "CapBnd", "NoNewPrivs"))]
print("".join(caps), f"uid {os.getuid()}", sep="", flush=True)
# A daemon that wants to stay.
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(0); os.close(1); os.close(2)
        import time
        while True: time.sleep(1)
    os._exit(0)
"#;

/// How many attempts those are.
const COUNT: usize = 61;

/// Opens a terminal as a person's would be, whom the agent is allowed to be.
fn terminal(owner: u32) -> (OwnedFd, PathBuf) {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let far = PathBuf::from(ptsname(&near, Vec::new()).unwrap().into_string().unwrap());
    if is_root() {
        chown(&far, Some(owner), None).unwrap();
    }
    (near, far)
}

/// Makes what processes share without a path, for everybody, until its input ends.
const SHARES: &str = r#"
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
memory = libc.shmget(0, 4096, 0o1666)
name = sys.argv[1].encode()
queue = libc.mq_open(name, 0o102, 0o666, None)
print(memory if queue >= 0 else -1, flush=True)
sys.stdin.read()
libc.shmctl(memory, 0, None); libc.mq_unlink(name)
"#;

/// Shared memory and a queue of the machine.
struct Shared {
    owner: Child,
    memory: i64,
}

impl Shared {
    fn make(queue: &str) -> Self {
        let mut command = Command::new(PYTHON);
        let mut owner =
            command.args(["-c", SHARES, queue]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut memory = String::new();
        BufReader::new(owner.stdout.take().unwrap()).read_line(&mut memory).unwrap();
        let memory = memory.trim().parse().unwrap();
        assert!(memory >= 0, "nothing can be shared on this machine");
        Self { owner, memory }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.owner.stdin.take());
        let _ = self.owner.wait();
    }
}

/// A process of the agent's own user that has nothing to do with it.
struct Neighbour(Child);

impl Neighbour {
    fn start(user: u32) -> Self {
        let id = user.to_string();
        let words: &[&str] = match is_root() {
            true => &["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "sleep", "1000"],
            false => &["sleep", "1000"],
        };
        let mut command = Command::new(words[0]);
        Self(command.args(&words[1..]).env("CANARY", "canary").spawn().unwrap())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn attack(setting: Setting) {
    let dispatch = Dispatch::of(
        env!("CARGO_BIN_EXE_agora-worker"),
        json!({"runtime": "command", "command": [PYTHON, "hostile.py"]}),
    )
    .file("hostile.py", ATTEMPTS);
    let root = dispatch.root().to_owned();
    for (path, content) in [("ledger", "canary"), ("secrets/one", "canary"), ("other/work/file", "canary")] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let abstract_name = format!("agora-wall-{}", root.display());
    let _abstract =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
    let socket = UnixListener::bind(root.join("socket")).unwrap();
    let datagram = std::os::unix::net::UnixDatagram::bind(root.join("datagram")).unwrap();
    datagram.set_nonblocking(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    let user = if setting.root { AGENT_ID } else { USER };
    let (_near, terminal) = terminal(user);
    let mut neighbour = Neighbour::start(user);
    let queue = format!("/agora-wall-{}", std::process::id());
    let shared = Shared::make(&queue);
    let dispatch = setting.of(dispatch);
    // The worker's id is only known once it runs: it hears what to do after that.
    let mut child = dispatch.command().spawn().unwrap();
    let worker = child.id();
    let dispatch = dispatch.input(json!({
        "root": root, "worker": worker, "abstract": abstract_name, "terminal": terminal,
        "neighbour": neighbour.0.id(), "memory": shared.memory, "queue": queue,
    }));
    let line = dispatch.bootstrap().to_line();
    if is_root() && !setting.root {
        give(&root);
    }
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), line.expose().as_bytes()).unwrap();
    let ended = dispatch.wait(child);

    let report = ended.finished();
    let ran = ended.adapter_ran().unwrap();
    assert_eq!(report.wall.level, setting.level, "{setting:?}: {:?}", report.warnings);
    let reached: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("REACHED")).collect();
    assert_eq!(reached, Vec::<&str>::new(), "{setting:?}\n{}{}", ran.stdout, ran.stderr);
    let refused = ran.stdout.lines().filter(|line| line.starts_with("refused")).count();
    assert_eq!(refused, COUNT, "{setting:?}\n{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("CapEff:\t0000000000000000\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("NoNewPrivs:\t1\n"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("uid 0\n"), "{setting:?}: the agent is root\n{}", ran.stdout);
    // What it forged stayed words: `finished` saw one terminal event, and it is the worker's.
    assert!(ran.stdout.contains("dispatch.finished"));
    assert_eq!(ended.dispatch.processes(), [], "{setting:?}: somebody stayed");
    assert!(neighbour.0.try_wait().unwrap().is_none(), "{setting:?}: the neighbour was ended");
    assert!(
        datagram.recv(&mut [0; 8]).is_err() && socket.accept().is_err(),
        "somebody came through a socket"
    );
    let mut outcome = String::new();
    fs::File::open(ended.dispatch.dir().join("out/outcome.json"))
        .unwrap()
        .read_to_string(&mut outcome)
        .unwrap();
    assert!(!outcome.contains("hostile"));
    for path in ["hostile", "other/hostile"] {
        assert!(!root.join(path).exists());
    }
    assert_eq!(ended.file("allowed").as_deref(), Some("hostile"), "it may work");
}

#[test]
fn a_hostile_program_reaches_nothing() {
    if !std::path::Path::new(PYTHON).exists() {
        return skipped("no python3 to be hostile in");
    }
    let settings: Vec<Setting> = settings().collect();
    assert!(settings.iter().any(|setting| setting.level == Level::Landlock) || !is_root(), "{settings:?}");
    settings.into_iter().for_each(attack);
}
