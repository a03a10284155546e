//! Agents as programs: what npm installs is often a script that starts one.

use std::path::{Path, PathBuf};

/// Where a package has its native program, from the directory that packages are in.
const PACKAGES: [(&str, &str); 4] = [
    ("claude", "@anthropic-ai/claude-code-linux-x64/claude"),
    ("claude", "@anthropic-ai/claude-code-linux-arm64/claude"),
    ("codex", "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"),
    ("codex", "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex"),
];

/// What an agent does not work without: a shell for its commands.
pub(super) fn companions(name: &str) -> &'static [&'static str] {
    match name {
        "claude" | "codex" => &["sh", "bash"],
        _ => &[],
    }
}

/// Finds the native program behind a script of npm's.
pub(super) fn behind(name: &str, script: &Path) -> Option<PathBuf> {
    let packages = PACKAGES.iter().filter(|(agent, _)| *agent == name);
    let modules = || {
        script
            .ancestors()
            .map(|dir| dir.join("node_modules"))
            .chain(script.ancestors().filter(|dir| dir.ends_with("node_modules")).map(Path::to_owned))
    };
    packages.flat_map(|(_, below)| modules().map(move |dir| dir.join(below))).find(|path| path.is_file())
}
