//! The wall between an agent and everything else.

/// Who runs behind the wall when the worker is root: a user and a group that own nothing.
pub const AGENT_ID: u32 = 61_000;
