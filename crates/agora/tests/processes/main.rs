//! The engine with real processes: several commands on one home, any of which may be killed at any moment.
//!
//! ```text
//!  support   a home with agents that are shell scripts; who is alive, what is recorded, what is left
//!  kills     SIGKILL to an engine at each of its steps, under load
//!  races     cancel against finish against the time limit
//!  queue     many at once, and never more than there is room for
//!  answers   many answers to one question, and every way in which one does not count
//!  drive     a thread in somebody's hands, while others answer it
//!  outcomes  who may answer, what is too late, what silence leads to
//!  routes    commands that are asked, timers that somebody turns, and what an agent tries for itself
//!  cancel    from another process, in every state; Ctrl-C once and twice
//!  recovery  what a dead engine, a dead worker and another boot leave
//!  sweep     what nobody may want any more
//!  library   the same engine, embedded
//! ```
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails loudly, and names its seed")]

mod answers;
mod cancel;
mod drive;
#[path = "../../../agora-engine/examples/dispatch.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod example;
mod kills;
mod library;
#[path = "../../../agora-engine/examples/orchestrator.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod orchestrator;
mod outcomes;
mod queue;
mod races;
mod recovery;
mod routes;
mod support;
mod sweep;
