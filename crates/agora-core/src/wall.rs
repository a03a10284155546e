//! What both sides of the wall agree on.

/// Who runs behind the wall when the worker is root: a user and group that no system gives to anybody.
pub const AGENT_ID: u32 = 61_000;
