//! What agora needs from outside, one trait a seam. Implementations stay dumb and are not trusted; each passes the
//! contract suite of its trait in `agora-testkit`.

pub mod alarm;
pub mod blob;
pub mod compute;
pub mod ground;
pub mod lease;
pub mod ledger;
pub mod registry;
pub mod secret;
pub mod shelf;

use std::error::Error;
use std::fmt;

/// Why something outside did not do what it should. Kept apart, because a person mends each differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// No room left.
    Full,
    /// Nothing may be written there.
    ReadOnly,
    /// This user may not.
    Denied,
    /// Anything else; asking again may help.
    Failed,
}

/// Something outside could not be used.
#[derive(Debug)]
pub struct Unavailable {
    /// What was being done, to what: `write `blobs/3f/2a…``.
    pub doing: String,
    pub outage: Outage,
    pub source: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.doing)
    }
}

impl Error for Unavailable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
