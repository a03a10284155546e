//! The half of agora that stands beside untrusted code.
//!
//! In reading order: [`child`] is the one way to start another program; [`sandbox`] says what this machine can
//! put between such a program and everything else; [`redact`] hides secrets in what such a program says; [`overlay`] lays
//! capabilities over its workspace, and [`patch`] says what it changed there.

pub mod child;
pub mod overlay;
pub mod patch;
pub mod redact;
pub mod sandbox;
