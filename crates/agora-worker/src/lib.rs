//! The half of agora that stands beside untrusted code.
//!
//! In reading order: [`child`] is the one way to start another program; [`sandbox`] says what this machine can
//! put between such a program and everything else.

pub mod child;
pub mod sandbox;
