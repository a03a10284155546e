//! How children begin and end.

use std::io::ErrorKind;
use std::time::Duration;

use agora_worker::child::drain::Nowhere;
use agora_worker::child::{How, Input, Keeper, Limits, SoftSignal, Spec, StartError, Why};

use crate::scenes::{Scene, Starter};
use crate::support::{LONG, assert_ended, guarded_by, keeper, run, shell, start_until_ready};

#[test]
fn codes_and_signals_are_told_apart() {
    let keeper = keeper();
    for (script, how) in [
        ("exit 0", How::Exited(0)),
        ("exit 7", How::Exited(7)),
        ("kill -TERM $$", How::Killed(15)),
        ("kill -KILL $$", How::Killed(9)),
    ] {
        let (ended, _) = run(&keeper, shell(script));
        assert_ended(&ended, how);
    }
}

#[test]
fn a_child_has_its_directory_its_variables_and_a_session_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let session = "read id name state parent group session rest </proc/$$/stat";
    let own = "echo $((session == $$)) $((group == $$))";
    let names = "env | sed 's/=.*//' | sort | tr '\\n' ' '";
    let mut spec = shell(&format!("pwd; echo $GREETING; {session}; {own}; {names}"));
    spec.directory = dir.clone();
    spec.environment.push(("GREETING".into(), "hello".into()));
    let (ended, said) = run(&keeper(), spec);
    assert_ended(&ended, How::Exited(0));
    // The shell adds these two of its own.
    let variables = said.lines().last().unwrap().replace("PWD ", "").replace("_ ", "");
    let lines: Vec<&str> = said.lines().take(3).chain([variables.as_str()]).collect();
    assert_eq!(lines, [dir.to_str().unwrap(), "hello", "1 1", "GREETING PATH "]);
}

#[test]
fn a_child_inherits_no_descriptor_but_its_three() {
    // Held without the flag that keeps it from being inherited, as somebody else may have left it in a worker.
    let open = std::fs::File::open("/").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    // A bare `ls`, since a shell may keep descriptors of its own: 3 is the directory that it reads.
    let spec = Spec { program: "ls".into(), arguments: vec!["/proc/self/fd".into()], ..shell("") };
    let (ended, said) = run(&keeper(), spec);
    assert_ended(&ended, How::Exited(0));
    assert_eq!(said, "0\n1\n2\n3\n");
}

#[test]
fn what_is_not_there_is_named() {
    let keeper = keeper();
    let start = |spec: Spec| keeper.start(spec, Box::new(Nowhere), Box::new(Nowhere)).unwrap_err();
    for program in ["/nowhere/at/all", "not-in-any-path"] {
        match start(Spec { program: program.into(), ..shell("") }) {
            StartError::Program { program: named, source } => {
                assert_eq!((named.to_str(), source.kind()), (Some(program), ErrorKind::NotFound));
            }
            other => panic!("{other:?}"),
        }
    }
    match start(Spec { program: "/etc/passwd".into(), ..shell("") }) {
        StartError::Program { source, .. } => assert_eq!(source.kind(), ErrorKind::PermissionDenied),
        other => panic!("{other:?}"),
    }
    match start(Spec { directory: "/nowhere".into(), ..shell("") }) {
        StartError::Directory { directory, source } => {
            assert_eq!((directory.to_str(), source.kind()), (Some("/nowhere"), ErrorKind::NotFound));
        }
        other => panic!("{other:?}"),
    }
    let lost = Keeper::new(guarded_by("/nowhere/guard"), "test");
    let error = lost.start(shell("exit 0"), Box::new(Nowhere), Box::new(Nowhere)).unwrap_err();
    assert!(matches!(error, StartError::Guard { .. }), "{error:?}");
}

#[test]
fn a_guard_that_is_none_is_a_start_error() {
    assert_eq!(Starter::new(Scene::NoGuard).end(), "could not prepare the start of `/bin/sh`");
}

#[test]
fn an_argument_that_is_too_long_is_the_programs_matter() {
    let spec = Spec { arguments: vec!["x".repeat(1 << 20).into()], ..shell("") };
    let error = keeper().start(spec, Box::new(Nowhere), Box::new(Nowhere)).unwrap_err();
    match error {
        StartError::Program { source, .. } => assert_eq!(source.kind(), ErrorKind::ArgumentListTooLong),
        other => panic!("{other:?}"),
    }
}

#[test]
fn input_is_fed_whole() {
    let bytes: Vec<u8> = (0..1 << 20).map(|number: u32| number.to_le_bytes()[1]).collect();
    let expected = bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let script = "od -An -v -tu1 -w1 | awk '{ sum += $1 } END { print sum, NR }'";
    let (ended, said) = run(&keeper(), Spec { stdin: Input::Bytes(bytes), ..shell(script) });
    assert_ended(&ended, How::Exited(0));
    assert_eq!(said, format!("{expected} {}\n", 1 << 20));
}

#[test]
fn input_that_nobody_reads_is_no_obstacle() {
    let input = || Input::Bytes(vec![b'x'; 1 << 20]);
    for script in ["exit 3", "exec <&-; exit 3"] {
        let (ended, _) = run(&keeper(), Spec { stdin: input(), ..shell(script) });
        assert_ended(&ended, How::Exited(3));
    }
}

#[test]
fn closed_input_is_at_its_end_at_once() {
    let (ended, said) = run(&keeper(), shell("cat; echo done"));
    assert_ended(&ended, How::Exited(0));
    assert_eq!(said, "done\n");
}

#[test]
fn a_polite_child_is_stopped_by_the_signal_it_wants() {
    for (soft, name) in [(SoftSignal::Terminate, "TERM"), (SoftSignal::Interrupt, "INT")] {
        let script = format!("trap 'exit 9' {name}; echo ready; while :; do sleep 0.01; done");
        let running = start_until_ready(&keeper(), Spec { soft, ..shell(&script) });
        let stopper = running.stopper();
        stopper.stop(Why::Sentinel);
        stopper.stop(Why::Cancelled);
        let ended = running.wait();
        assert_eq!((ended.how, ended.stopped), (How::Exited(9), Some(Why::Sentinel)));
        stopper.stop(Why::Budget);
    }
}

#[test]
fn a_child_that_ignores_the_signal_is_killed_after_its_grace() {
    let grace = Duration::from_millis(300);
    let script = "trap '' TERM INT; echo ready; while :; do sleep 0.01; done";
    let limits = Limits { time: Some(Duration::from_millis(100)), ..Limits::default() };
    let running = start_until_ready(&keeper(), Spec { grace, limits, ..shell(script) });
    let ended = running.wait();
    assert_eq!((ended.how, ended.stopped, ended.leftovers), (How::Killed(9), Some(Why::Time), false));
    assert!(ended.duration >= Duration::from_millis(400) && ended.duration < LONG, "{:?}", ended.duration);
}

#[test]
fn a_child_that_was_stopped_hears_the_signal() {
    let wait = "while ! grep -q '^State:.T' /proc/$$/status; do :; done";
    let script = &format!("trap 'exit 9' TERM; ({wait}; echo ready) & kill -STOP $$; exit 1");
    let running = start_until_ready(&keeper(), Spec { grace: LONG, ..shell(script) });
    running.stopper().stop(Why::Cancelled);
    assert_eq!(running.wait().how, How::Exited(9));
}
