//! The engine in a world of its own: one thread, one seed. Processes die at every await, writes fail or only seem to, workers are
//! lost, clocks are set, leases are given twice. Whatever happened, in the end ledger and world agree, nothing is lost, nothing ran
//! twice, nothing is left. `docs/reliability.md` says what is played and what is not.
//!
//! A failure prints the seed. `AGORA_SIM_SEED=n cargo nextest run -p agora-engine --test simulator one_seed` plays it again.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails loudly")]

#[cfg(feature = "sabotage")]
mod bugs;
mod chance;
mod check;
mod deed;
mod executor;
mod grounds;
mod journal;
mod machine;
mod named;
mod people;
mod scenario;
mod seams;
mod store;
mod year;

use std::collections::BTreeMap;

use agora_testkit::part;
use machine::Faults;
use scenario::play;
use store::Kind;

/// Everything at once, and each trouble alone.
const TROUBLES: [(&str, Faults); 8] = [
    ("calm", Faults::NONE),
    ("crashes", Faults { crash: 6, ..Faults::NONE }),
    ("full disks", Faults { full: 30, unheard: 30, ..Faults::NONE }),
    ("lost workers", Faults { crash: 2, lost: 400, ..Faults::NONE }),
    ("double leases", Faults { crash: 3, lost: 50, double_lease: 500, ..Faults::NONE }),
    ("clocks", Faults { crash: 2, jump: 20, ..Faults::NONE }),
    ("limits", Faults { crash: 2, limited: 700, ..Faults::NONE }),
    (
        "everything",
        Faults { crash: 5, full: 10, unheard: 10, lost: 100, limited: 100, double_lease: 100, jump: 20 },
    ),
];

fn trouble(seed: u64) -> Faults {
    TROUBLES[usize::try_from(seed % 8).unwrap()].1
}

fn seeds(from: u64, count: u64, kind: Kind) -> BTreeMap<&'static str, u64> {
    let mut seen = BTreeMap::new();
    for seed in from..from + count {
        for (what, often) in play(seed, trouble(seed), kind).seen {
            *seen.entry(what).or_default() += often;
        }
    }
    seen
}

/// A million with `--full`.
fn share() -> u64 {
    if part::full() { 100_000 } else { 2_000 }
}

macro_rules! shares {
    ($($name:ident $number:literal),* $(,)?) => {
        $(#[test] fn $name() { seeds($number * share(), share(), Kind::Memory); })*
    };
}

// Ten tests, so that both cores have something to do.
shares!(
    share_0 0, share_1 1, share_2 2, share_3 3, share_4 4, share_5 5, share_6 6, share_7 7, share_8 8, share_9 9,
);

/// Two of five hundred, for the same reason.
#[test]
fn in_a_file_0() {
    let seen = seeds(0, 500, Kind::File);
    assert!(seen.contains_key("no room in the ledger"), "no disk was too small: {seen:#?}");
}

#[test]
fn in_a_file_1() {
    seeds(500, 500, Kind::File);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a person names a seed")]
fn one_seed() {
    let Ok(seed) = std::env::var("AGORA_SIM_SEED") else { return };
    let kind = if std::env::var("AGORA_SIM_FILE").is_ok() { Kind::File } else { Kind::Memory };
    println!("{:#?}", seeds(seed.parse().unwrap(), 1, kind));
}

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in 0..80 {
        assert_eq!(
            play(seed, trouble(seed), Kind::Memory),
            play(seed, trouble(seed), Kind::Memory),
            "seed {seed}"
        );
    }
}

#[test]
fn the_same_seed_is_the_same_story_in_a_file() {
    for seed in 0..24 {
        assert_eq!(
            play(seed, trouble(seed), Kind::File),
            play(seed, trouble(seed), Kind::File),
            "seed {seed}"
        );
    }
}

/// A simulator in which something never happens says nothing about it.
#[test]
fn everything_that_is_to_happen_happens() {
    let seen = seeds(1_000_000, 2_000, Kind::Memory);
    println!("{seen:#?}");
    for what in [
        "accepted",
        "accepted before",
        "answered",
        "cancelled",
        "claimed",
        "clock set",
        "command: answers",
        "command: asked",
        "command: gone",
        "command: hangs",
        "concluded: ours",
        "concluded: theirs",
        "continued",
        "crash",
        "declined",
        "double lease",
        "expired: fail",
        "expired: the default",
        "escalated",
        "failed: agent",
        "failed: rate limit",
        "failed: time limit",
        "failed: worker lost",
        "finished",
        "forgotten",
        "full disk",
        "lost worker",
        "needs_input",
        "carried from its acceptance",
        "not reclaimed",
        "reclaimed",
        "refused: answered before",
        "refused: closed",
        "refused: duplicate, answered before",
        "refused: early, unknown",
        "refused: late, answered before",
        "refused: late, expired",
        "refused: not entitled",
        "refused: out of order, answered before",
        "refused: unfit",
        "refused: unknown",
        "reminded",
        "routed: no-channel",
        "routed: no-response",
        "routed: answered",
        "settled",
        "started already",
        "swept: everything",
        "swept: snapshots",
        "tried again",
        "unheard write",
        "waited for",
    ] {
        assert!(seen.contains_key(what), "in 2,000 stories there was no `{what}`");
    }
    let adopted = seen["carried aside"] - seen["carried aside as asked"];
    assert!(adopted > 0, "nobody carried the one before them in the queue");
}
