//! Tells a person on this machine that something wants them: by the desktop, or by a program of theirs.
//!
//! Best effort, and never more: whoever waits for an answer waits whether or not somebody was told. What went wrong last is kept in a
//! small file, for `agora doctor`.

mod aside;
mod run;
mod trouble;
mod way;

use std::ffi::OsString;
use std::sync::Arc;
use std::thread;

use agora_core::time::Clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::home::Home;

pub use aside::hand_over;
pub use trouble::{Trouble, last_trouble};
pub use way::{Way, WayError};

/// What is to be told, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub ways: Vec<Way>,
    /// One line that anybody may see: a program's arguments are public.
    pub summary: String,
    /// All of it, for the standard input of programs alone.
    pub document: Value,
}

impl Message {
    /// Tells it by all ways at once, and returns when each has ended or taken too long.
    pub fn tell(&self, home: &Home, path: Option<OsString>, clock: &Arc<dyn Clock>) {
        let document = self.document.to_string();
        thread::scope(|scope| {
            for way in &self.ways {
                let (path, document) = (path.as_deref(), &document);
                scope.spawn(move || {
                    let told = run::run(way, path, &self.summary, document);
                    trouble::note(home, &way.name(), told.err(), clock.now());
                });
            }
        });
    }
}
