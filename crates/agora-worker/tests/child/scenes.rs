//! Workers of their own: this executable again, in one of the tests below that does nothing otherwise.
//!
//! For what cannot be tried in a process with other tests in it: killing the worker, killing a guard, measuring memory.

#![expect(clippy::disallowed_methods, reason = "starts processes, and tells them what to play")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agora_worker::child::drain::Nowhere;
use agora_worker::child::{How, Keeper, Limits, Spec};

use crate::output::flood;
use crate::support::{assert_ended, groups_of, guarded_by, keeper, run, shell, start_until_ready};

const SCENE: &str = "AGORA_TEST_SCENE";
const SCRIPT: &str = "AGORA_TEST_SCRIPT";
/// Limits that nobody here comes near to.
const WIDE: Limits = Limits { time: None, memory_bytes: Some(1 << 30), processes: Some(100) };
/// Marks the lines of a scene among those of the test harness.
const SAYS: &str = "scene says: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Flood,
    LongLine,
    /// A worker that waits for its child for ever.
    Wait,
    /// The same, with limits.
    WaitLimited,
    /// A worker whose guard is attacked by the child, whose script finds the guard as its parent.
    Attack,
    /// The same, with little time.
    ShortAttack,
    /// Two hundred children, one after another.
    Many,
    /// A worker whose guard is another program, which just ends.
    NoGuard,
}

const ALL: [Scene; 8] = [
    Scene::Flood,
    Scene::LongLine,
    Scene::Wait,
    Scene::WaitLimited,
    Scene::Attack,
    Scene::ShortAttack,
    Scene::Many,
    Scene::NoGuard,
];

/// What a flood came to.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) summary: String,
    pub(crate) peak_kibibytes: u64,
}

/// A process that plays a scene.
pub(crate) struct Starter {
    process: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Starter {
    pub(crate) fn new(scene: Scene) -> Self {
        Self::with(scene, "")
    }

    pub(crate) fn with(scene: Scene, script: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "scenes::a_scene_for_other_tests"])
            .env(SCENE, format!("{scene:?}"))
            .env(SCRIPT, script)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The harness may print the name of the test before it, on the same line.
        let lines = Box::new(lines.filter_map(|line| Some(line.split_once(SAYS)?.1.to_owned())));
        Self { process, lines }
    }

    /// Returns the next thing that the scene says.
    pub(crate) fn says(&mut self) -> String {
        self.lines.next().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn run(mut self) -> Seen {
        let (summary, peak) = (self.says(), self.says());
        assert!(self.process.wait().unwrap().success());
        Seen { summary, peak_kibibytes: peak.parse().unwrap() }
    }

    pub(crate) fn end(mut self) -> String {
        let last = self.says();
        assert!(self.process.wait().unwrap().success());
        last
    }
}

#[expect(clippy::print_stdout, reason = "this is how a scene speaks to the test that plays it")]
fn say(text: &str) {
    println!("{SAYS}{text}");
}

#[test]
#[ignore = "started by other tests"]
fn a_scene_for_other_tests() {
    let Some(scene) = std::env::var_os(SCENE) else { return };
    let script = std::env::var(SCRIPT).unwrap();
    match ALL.into_iter().find(|one| scene == *format!("{one:?}")).unwrap() {
        Scene::Flood => play_flood("yes 123456789012345 | head -c 629145600"),
        Scene::LongLine => play_flood("head -c 104857600 /dev/zero | tr '\\0' x; echo; echo short"),
        Scene::Wait => play_wait(shell(&script)),
        Scene::WaitLimited => play_wait(Spec { limits: WIDE, ..shell(&script) }),
        Scene::Many => play_many(),
        Scene::NoGuard => {
            let keeper = Keeper::new(guarded_by("/bin/true"), "test");
            let error = keeper.start(shell(""), Box::new(Nowhere), Box::new(Nowhere)).unwrap_err();
            say(&error.to_string());
        }
        Scene::Attack => play_attack(shell(&script)),
        Scene::ShortAttack => {
            let little = Duration::from_millis(100);
            let limits = Limits { time: Some(little), ..Limits::default() };
            play_attack(Spec { limits, grace: little, ..shell(&script) });
        }
    }
}

fn play_wait(spec: Spec) {
    let running = start_until_ready(&keeper(), spec);
    say("ready");
    running.wait();
}

/// Every fourth has limits, and so groups where there can be some; every fifth leaves somebody behind.
fn play_many() {
    let keeper = keeper();
    let run_one = |number: u32| {
        let limits = match number % 4 {
            0 => WIDE,
            _ => Limits::default(),
        };
        let script = if number.is_multiple_of(5) { "sleep 1000 & exit 0" } else { "exit 0" };
        let (ended, _) = run(&keeper, Spec { limits, ..shell(script) });
        assert_ended(&ended, How::Exited(0));
    };
    run_one(0);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    (0..200).for_each(run_one);
    let more = descriptors() - before;
    let groups = groups_of(std::process::id(), "test");
    say(&format!("children: {:?}, descriptors: {more} more, groups: {groups:?}", children()));
}

fn children() -> String {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap()).collect()
}

fn play_attack(spec: Spec) {
    let running = keeper().start(spec, Box::new(Nowhere), Box::new(Nowhere)).unwrap();
    let ended = running.wait();
    say(&format!("{:?}, leftovers: {}, children: {:?}", ended.how, ended.leftovers, children()));
}

fn play_flood(script: &str) {
    let (running, summary) = flood(script);
    let ended = running.wait();
    assert_eq!((ended.how, ended.leftovers), (How::Exited(0), false));
    say(&summary());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    say(peak.trim().strip_suffix(" kB").unwrap());
}
