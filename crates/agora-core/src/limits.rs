//! The limits that users meet, each in one place.

/// All files of one capability together.
pub const CAPABILITY_BYTES: u64 = 50 * 1024 * 1024;
/// Files in one capability.
pub const CAPABILITY_FILES: usize = 20_000;
/// The name of a bundle.
pub const NAME_LENGTH: usize = 128;
/// A path in a bundle; the kernel's own limit for a path is 4096.
pub const PATH_BYTES: usize = 1024;
/// One part of a path; the limit of the usual file systems.
pub const PATH_PART_BYTES: usize = 255;
/// A manifest with all that is written in it; 20,000 files with long paths fit.
pub const MANIFEST_BYTES: u64 = 32 * 1024 * 1024;
/// A prompt or a description. Runtimes refuse longer ones (codex above 1,048,576 characters).
pub const PROMPT_BYTES: usize = 1024 * 1024;
/// A variable's value with its name; the kernel refuses 128 KiB.
pub const VARIABLE_BYTES: usize = 128 * 1024 - 1;
/// All variables of one env bundle together.
pub const ENV_BYTES: usize = 1024 * 1024;
/// A definition file (YAML, TOML, Markdown) that somebody hands us.
pub const DEFINITION_BYTES: u64 = 4 * 1024 * 1024;
/// A secret's value.
pub const SECRET_BYTES: usize = 64 * 1024;
/// A shorter secret would be found in innocent text, and redacting it would spoil that text.
pub const SHORTEST_SECRET: usize = 6;
/// A whole `needs_input.json`.
pub const SENTINEL_BYTES: u64 = 1024 * 1024;
/// Items of one question. A person answers all of them at once.
pub const QUESTION_ITEMS: usize = 100;
/// Options of one item. More than that is a search, and not a choice.
pub const ITEM_OPTIONS: usize = 1000;
/// A dispatch's manifest: input and partial state of 1 MiB each, a question, a message, and room for JSON's escapes.
pub const DISPATCH_MANIFEST_BYTES: u64 = 16 * 1024 * 1024;
/// The bootstrap line: every secret of a dispatch, each up to 64 KiB.
pub const BOOTSTRAP_BYTES: u64 = 16 * 1024 * 1024;
/// What of an agent's final text is in an event line.
pub const LINE_STDOUT_BYTES: usize = 4 * 1024 * 1024;
/// What of an agent's complaints is in an event line.
pub const LINE_STDERR_BYTES: usize = 256 * 1024;
/// What of an agent's output is kept as an artifact.
pub const LOG_BYTES: u64 = 64 * 1024 * 1024;
/// A setup script's time when none is given.
pub const SETUP_SECONDS: u32 = 120;
/// A dispatch's time when none is given, and the longest.
pub const DISPATCH_SECONDS: u32 = 7200;
pub const LONGEST_DISPATCH_SECONDS: u32 = 86_400;
/// A verify command's time when none is given.
pub const VERIFY_SECONDS: u32 = 600;
/// A dispatch's input, and its partial state, each as JSON.
pub const INPUT_BYTES: usize = 1024 * 1024;
/// How long what is left of a thread is kept after its end, when nothing is said.
pub const RETENTION_DAYS: u32 = 30;
/// Seven years.
pub const LONGEST_RETENTION_DAYS: u32 = 2555;
/// No program starts with less memory than that.
pub const LEAST_MEMORY_BYTES: u64 = 4 << 20;
