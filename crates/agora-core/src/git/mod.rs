//! What git writes, read in process and with nothing taken on trust.

pub mod index;
pub mod patch;
pub mod pattern;
pub mod sight;
mod split;

use pattern::{Pattern, Steps};

/// Reads a file of rules, such as a `.gitignore`.
pub fn rules(text: &[u8]) -> Vec<Pattern> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter_map(Pattern::parse).collect()
}

/// Tells what rules say of a path: the last one that matches decides.
pub fn says(rules: &[Pattern], path: &[u8], is_dir: bool, steps: &Steps) -> Option<bool> {
    let last = rules.iter().rev().find(|pattern| pattern.matches(path, is_dir, steps));
    last.map(|pattern| !pattern.negated)
}
