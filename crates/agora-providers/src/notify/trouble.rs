//! What went wrong last when somebody was to be told: one small file, which goes when the same way works again.

use std::fs;
use std::path::PathBuf;

use agora_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::home::{Home, read_capped};

/// A little more than what is kept.
const MOST_BYTES: u64 = 16 * 1024;

/// Why somebody was not told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    pub at: Timestamp,
    /// Which way it was, without its arguments.
    pub way: String,
    pub why: String,
}

/// Returns what went wrong last, and has not worked since.
pub fn last_trouble(home: &Home) -> Option<Trouble> {
    let bytes = read_capped(&file(home), MOST_BYTES).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// Notes how it went. That this cannot be written changes nothing about what nobody was told.
pub(super) fn note(home: &Home, way: &str, why: Option<String>, at: Timestamp) {
    match why {
        Some(why) => {
            let trouble = Trouble { at, way: way.to_owned(), why };
            let _ = home.put(&file(home), &serde_json::to_vec(&trouble).unwrap_or_default());
        }
        None if last_trouble(home).is_some_and(|trouble| trouble.way == way) => {
            let _ = fs::remove_file(file(home));
        }
        None => {}
    }
}

fn file(home: &Home) -> PathBuf {
    home.root().join("notify.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_kept_until_the_same_way_works_again() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        home.prepare().unwrap();
        let at = Timestamp::from_millis(1);
        note(&home, "desktop", None, at);
        assert_eq!(last_trouble(&home), None);
        note(&home, "desktop", Some("no session".into()), at);
        note(&home, "command:post", None, at);
        let trouble = Trouble { at, way: "desktop".into(), why: "no session".into() };
        assert_eq!(last_trouble(&home), Some(trouble));
        note(&home, "desktop", None, at);
        assert_eq!(last_trouble(&home), None);
    }
}
