//! What a child costs beside a bare spawn.

#![expect(clippy::disallowed_methods, reason = "measures real time, and a bare spawn")]

use std::process::Command;
use std::time::{Duration, Instant};

use agora_worker::child::{How, Limits, Spec};

use crate::support::{assert_ended, keeper, run, shell};

const TIMES: usize = 200;

fn median(mut once: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let since = Instant::now();
            once();
            since.elapsed()
        })
        .collect();
    times.sort();
    times[TIMES / 2]
}

#[test]
#[ignore = "measures; wants a release build and a quiet machine"]
fn a_child_costs_about_two_spawns() {
    let keeper = keeper();
    let child = |limits: Limits| {
        let spec = Spec { program: "/bin/true".into(), arguments: Vec::new(), limits, ..shell("") };
        let (ended, _) = run(&keeper, spec);
        assert_ended(&ended, How::Exited(0));
    };
    let bare = median(|| assert!(Command::new("/bin/true").status().unwrap().success()));
    let kept = median(|| child(Limits::default()));
    let limited = median(|| child(Limits { memory_bytes: Some(1 << 30), ..Limits::default() }));
    println!("a bare spawn {bare:?}, a child {kept:?}, one with limits {limited:?}");
    assert!(kept < bare * 5, "{kept:?} beside {bare:?}");
}
