//! The engine in a world of its own: one thread, one seed. Processes die at every await, writes fail, workers are lost, clocks jump,
//! leases are given twice. Whatever happened, in the end ledger and world agree, nothing is lost, nothing ran twice, nothing is left.
//!
//! A failure prints the seed. `AGORA_SIM_SEED=n cargo nextest run -p agora-engine --test simulator one_seed` plays it again.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails loudly")]

mod chance;
mod executor;
mod machine;
mod scenario;
mod seams;

use agora_testkit::part;
use machine::Faults;
use scenario::play;

/// Everything at once, and each trouble alone.
const TROUBLES: [(&str, Faults); 6] = [
    ("calm", Faults { crash: 0, full: 0, lost: 0, double_lease: 0, jump: 0 }),
    ("crashes", Faults { crash: 6, full: 0, lost: 0, double_lease: 0, jump: 0 }),
    ("full disks", Faults { crash: 0, full: 30, lost: 0, double_lease: 0, jump: 0 }),
    ("lost workers", Faults { crash: 2, full: 0, lost: 400, double_lease: 0, jump: 0 }),
    ("double leases", Faults { crash: 3, full: 0, lost: 50, double_lease: 500, jump: 0 }),
    ("everything", Faults { crash: 5, full: 10, lost: 100, double_lease: 100, jump: 50 }),
];

fn seeds(from: u64, count: u64) {
    for seed in from..from + count {
        let (_, faults) = TROUBLES[usize::try_from(seed % 6).unwrap()];
        play(seed, faults);
    }
}

/// A million with `--full`: 50 tests of these.
fn share() -> u64 {
    if part::full() { 100_000 } else { 2_000 }
}

macro_rules! shares {
    ($($name:ident $number:literal),* $(,)?) => {
        $(#[test] fn $name() { seeds($number * share(), share()); })*
    };
}

// Ten tests, so that both cores have something to do.
shares!(
    share_0 0, share_1 1, share_2 2, share_3 3, share_4 4, share_5 5, share_6 6, share_7 7, share_8 8, share_9 9,
);

#[test]
#[expect(clippy::disallowed_methods, reason = "a person names a seed")]
fn one_seed() {
    let Ok(seed) = std::env::var("AGORA_SIM_SEED") else { return };
    seeds(seed.parse().unwrap(), 1);
}

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in 0..60 {
        let (_, faults) = TROUBLES[usize::try_from(seed % 6).unwrap()];
        assert_eq!(play(seed, faults), play(seed, faults), "seed {seed}");
    }
}
