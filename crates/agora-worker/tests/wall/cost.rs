//! What the wall adds to a dispatch.

use std::time::{Duration, Instant};

use agora_core::wall::Isolation;
use agora_testkit::worker::Dispatch;

const RUNS: u32 = 50;

fn mean(isolation: Isolation) -> Duration {
    let one = || {
        let dispatch = Dispatch::script(env!("CARGO_BIN_EXE_agora-worker"), "true")
            .with(|manifest| manifest.wall.isolation = isolation);
        let line = dispatch.bootstrap().to_line();
        let mut command = dispatch.command();
        let since = Instant::now();
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), line.expose().as_bytes()).unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
        since.elapsed()
    };
    one();
    (0..RUNS).map(|_| one()).sum::<Duration>() / RUNS
}

#[test]
#[ignore = "measures; wants a release build and a quiet machine"]
fn the_wall_costs_a_few_spawns() {
    for round in 0..3 {
        let (open, walled) = (mean(Isolation::None), mean(Isolation::Auto));
        eprintln!("round {round}: no wall {open:?}, behind the wall {walled:?}");
        assert!(walled < open + Duration::from_millis(25), "{open:?} {walled:?}");
    }
}
