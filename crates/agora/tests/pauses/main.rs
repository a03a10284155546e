//! Threads that pause, and go on in another process: by real agents, through dead engines and moved homes.
//!
//! ```text
//!  support   a user with a repository, an agent, and a home that can be moved
//!  five      five pauses of the real Claude Code and of the real Codex, against a scripted model
//!  many      ten thousand open questions
//!  budget    agora's own question: a limit is raised, or the thread stops
//!  stale     what a question rests on moves before it is answered
//! ```
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod budget;
mod five;
mod many;
mod stale;
mod support;
