//! The real probe, in a process of its own. This file is both the program that is probed with and the test.
//!
//! It speaks enough of the test harness' command line for `cargo test` and nextest.

use std::error::Error;
use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use agora_worker::sandbox::probe::{Cause, Landlock, Level, Refusal, Support, probe, probe_in_this_process};

const NAME: &str = "the_real_probe_reports";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if arguments == ["worker", "probe"] {
        writeln!(stdout(), "{}", serde_json::to_string(&probe_in_this_process())?)?;
    } else if has("--list") && !has("--ignored") {
        writeln!(stdout(), "{NAME}: test")?;
    } else if !has("--list") {
        the_real_probe_reports(&std::env::current_exe()?)?;
    }
    Ok(())
}

/// What a machine offers differs, so this checks that the report hangs together and that the caller is untouched.
fn the_real_probe_reports(own_executable: &Path) -> Result<(), Box<dyn Error>> {
    let own_namespace = || fs::read_link("/proc/self/ns/mnt").ok();
    let before = own_namespace();
    let report = probe(own_executable)?;
    writeln!(stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    assert_eq!(report, probe(own_executable)?, "a second probe finds the same");
    assert_eq!(own_namespace(), before);

    let filters = matches!(report.landlock, Landlock::Yes { .. }) && report.seccomp == Support::Yes;
    let expected = match (&report.namespaces, filters) {
        (Support::Yes, true) => Level::Namespaces,
        (Support::No(_), true) => Level::Landlock,
        (_, false) => Level::None,
    };
    assert_eq!(report.level, expected);
    for support in [&report.namespaces, &report.seccomp, &report.overlayfs_in_userns] {
        if let Support::No(Refusal { cause, why }) = support {
            assert!(*cause != Cause::SeveralThreads && !why.is_empty(), "{support:?}");
        }
    }
    Ok(())
}
