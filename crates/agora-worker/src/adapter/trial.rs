//! What holds of each adapter, whatever its runtime prints. Tests say it of a corpus and of what mutation makes of it, and the
//! fuzzer of whatever it thinks of.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{End, Listener, RuntimeExit, Verdict, claude, codex, external};
use crate::child::{Ended, How};
use crate::switches::Permission;

/// The ways a program ends by itself.
const ENDS: [How; 3] = [How::Exited(0), How::Exited(1), How::Killed(15)];

/// Claude Code's stream: a success is what the last result says in so many words, with nothing begun after it.
pub(crate) fn claude(output: &[u8]) {
    let went_well = said_last(output, |line| match (line.kind.as_str(), line.subtype.as_str()) {
        (Some("result"), _) => Some(line.is_error == false),
        (Some("system"), Some("init")) => Some(false),
        _ => None,
    });
    let modes = [Permission::Bypass, Permission::Strict, Permission::Scoped];
    for (permission, how) in modes.into_iter().zip(ENDS) {
        let exit = hear(claude::listener(permission), output, how);
        assert!(went_well || !matches!(exit.verdict, Verdict::Success), "a success that nobody reported");
        let asks_by_call = exit.session.as_ref().is_some_and(|session| session.deferred.is_some());
        assert!(went_well || !asks_by_call || permission == Permission::Scoped, "a dropped call waits");
    }
}

/// Codex's stream: a success is a turn that was completed, with nothing begun or failed after it.
pub(crate) fn codex(output: &[u8]) {
    let went_well = said_last(output, |line| match line.kind.as_str() {
        Some("turn.completed") => Some(true),
        Some("turn.started" | "turn.failed") => Some(false),
        _ => None,
    });
    for how in ENDS {
        let exit = hear(codex::listener(), output, how);
        assert!(went_well || !matches!(exit.verdict, Verdict::Success), "a success that nobody reported");
    }
}

/// An external adapter's answer: a success is said, and goes with a good end.
pub(crate) fn external(output: &[u8]) {
    let Ok(name) = "mine".parse::<agora_core::Name>() else { return };
    let said_true = output.windows(4).any(|window| window == b"true");
    for how in ENDS {
        let exit = hear(external::listener(name.clone()), output, how);
        let success = matches!(exit.verdict, Verdict::Success) && exit.asked.is_none();
        assert!(!success || said_true && how == How::Exited(0), "a success that nobody reported");
    }
}

/// A line of a stream, as far as it says how it went. What else is in it may be anything.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Line {
    #[serde(rename = "type")]
    kind: Value,
    subtype: Value,
    is_error: Value,
}

/// Tells whether the last line that says how it went says that it went well.
fn said_last(output: &[u8], said: impl Fn(&Line) -> Option<bool>) -> bool {
    let lines = output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    lines.filter_map(|line| said(&line)).last() == Some(true)
}

/// Hears an output to its end, and looks at what every exit keeps true.
fn hear(mut listener: Box<dyn Listener>, output: &[u8], how: How) -> RuntimeExit {
    for line in output.split(|byte| *byte == b'\n') {
        listener.line(line);
    }
    let (stopped, duration) = (None, Duration::ZERO);
    let ended =
        Ended { how, stopped, out_of_memory: false, too_many_processes: false, duration, leftovers: false };
    let exit = listener.conclude(&End { ended: &ended, stdout: "", stderr: "the last word\n" });
    for usage in exit.usage.iter().chain(exit.session.iter().map(|session| &session.total)) {
        let twice = usage.clone().plus(usage);
        assert!(twice.tokens() >= usage.tokens(), "counts do not turn over");
        assert_eq!(usage.clone().since(usage).tokens(), 0);
    }
    if let Some(Ok(question)) = &exit.asked {
        let kept = serde_json::to_value(question).ok().and_then(|kept| serde_json::from_value(kept).ok());
        assert_eq!(kept.as_ref(), Some(question), "what is asked reads back");
    }
    exit
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
