//! Tells a person on this machine that something wants them: by the desktop, or by a program of theirs.
//!
//! Best effort, and never more: whoever waits for an answer waits whether or not somebody was told. What went wrong last is kept in a
//! small file, for `agora doctor`.

mod run;
mod trouble;
mod way;

use std::ffi::OsString;
use std::sync::Arc;
use std::thread;

use agora_core::time::Clock;
use serde_json::Value;

use crate::aside::aside;
use crate::home::Home;

pub use trouble::{Trouble, last_trouble};
pub use way::{Way, WayError};

/// Tells by every way that was chosen.
#[derive(Clone, Debug)]
pub struct Notices {
    home: Home,
    ways: Vec<Way>,
    /// Where programs are looked for.
    path: Option<OsString>,
    clock: Arc<dyn Clock>,
}

impl Notices {
    pub fn new(home: Home, ways: Vec<Way>, path: Option<OsString>, clock: Arc<dyn Clock>) -> Self {
        Self { home, ways, path, clock }
    }

    /// Tells, by all ways at once, and returns when each has ended or taken too long. The summary is one line that anybody may see,
    /// for a program's arguments are public; the document goes to the standard input of programs alone.
    pub async fn tell(&self, summary: &str, document: &Value) {
        if self.ways.is_empty() {
            return;
        }
        let (all, summary, document) = (self.clone(), summary.to_owned(), document.to_string());
        // In a thread of its own: it ends in its time, whether or not anybody waits for it.
        let telling = aside("notify", move || {
            thread::scope(|scope| {
                for way in &all.ways {
                    let (all, summary, document) = (&all, &summary, &document);
                    scope.spawn(move || {
                        let told = run::run(way, all.path.as_deref(), summary, document);
                        trouble::note(&all.home, &way.name(), told.err(), all.clock.now());
                    });
                }
            });
        });
        // That there is no thread to be had is nothing that a question should fail for.
        let _ = telling.await;
    }
}
