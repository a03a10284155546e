//! Hostile programs behind the wall: each reaches for what is forbidden, and the dispatch ends well and says so.
#![cfg(target_os = "linux")]

mod bombs;
mod hostile;
mod ladder;
mod support;
