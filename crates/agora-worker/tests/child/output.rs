//! Output of any size changes nothing but its log.

use std::sync::{Arc, Mutex};

use agora_worker::child::drain::{Capped, Lines, LogFile, Nowhere, Tee};
use agora_worker::child::{How, Running};

use crate::scenes::{Scene, Starter};
use crate::support::{assert_ended, keeper, run, shell};

#[test]
fn both_streams_arrive_whole() {
    let (out, err) = (Arc::new(Mutex::new(Capped::new(99))), Arc::new(Mutex::new(Capped::new(99))));
    let sinks = (Box::new(Arc::clone(&out)), Box::new(Arc::clone(&err)));
    let running = keeper().start(shell("echo one; echo two >&2; echo three"), sinks.0, sinks.1).unwrap();
    assert_ended(&running.wait(), How::Exited(0));
    let (out, err) = (out.lock().unwrap().text(), err.lock().unwrap().text());
    assert_eq!((out.as_str(), err.as_str()), ("one\nthree\n", "two\n"));
}

#[test]
fn what_was_said_last_is_read_before_the_wait_is_over() {
    for _ in 0..20 {
        let (ended, said) =
            run(&keeper(), shell("head -c 60000 /dev/zero | tr '\\0' x; echo; echo end; kill -KILL $$"));
        assert_ended(&ended, How::Killed(9));
        assert_eq!((said.len(), said.ends_with("\nend\n")), (60_005, true));
    }
}

/// The whole of the reading side in the scene is what a worker has: a capped text, a log and lines.
pub(crate) fn flood(script: &str) -> (Running, impl FnOnce() -> String) {
    let text = Arc::new(Mutex::new(Capped::new(64 * 1024)));
    let log = Arc::new(Mutex::new(LogFile::new(tempfile::tempfile().unwrap(), 1 << 20)));
    let counted = Arc::new(Mutex::new(0_u64));
    let count = Arc::clone(&counted);
    let lines = Arc::new(Mutex::new(Lines::new(move |_: &[u8]| *count.lock().unwrap() += 1)));
    let tee =
        Tee(vec![Box::new(Arc::clone(&text)), Box::new(Arc::clone(&log)), Box::new(Arc::clone(&lines))]);
    let running = keeper().start(shell(script), Box::new(tee), Box::new(Nowhere)).unwrap();
    let summary = move || {
        let (text, log) = (text.lock().unwrap(), log.lock().unwrap());
        let (lines, skipped) = (*counted.lock().unwrap(), lines.lock().unwrap().skipped());
        format!("{} bytes, {} logged, {lines} lines, {skipped} skipped", text.total(), log.written())
    };
    (running, summary)
}

#[test]
fn six_hundred_mebibytes_are_read_in_little_memory() {
    let seen = Starter::new(Scene::Flood).run();
    assert_eq!(seen.summary, "629145600 bytes, 1048576 logged, 39321600 lines, 0 skipped");
    println!("peak memory of the reader: {} KiB", seen.peak_kibibytes);
    assert!(seen.peak_kibibytes < 32 * 1024, "{}", seen.peak_kibibytes);
}

#[test]
fn one_line_of_a_hundred_mebibytes_is_passed_over() {
    let seen = Starter::new(Scene::LongLine).run();
    assert_eq!(seen.summary, "104857607 bytes, 1048576 logged, 1 lines, 1 skipped");
    println!("peak memory of the reader: {} KiB", seen.peak_kibibytes);
    // A line may have 16 MiB, and its buffer doubles.
    assert!(seen.peak_kibibytes < 64 * 1024, "{}", seen.peak_kibibytes);
}
