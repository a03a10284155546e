//! What a question rests on, and what of that has become another since: shown to whoever answers, and recorded with the answer.
//!
//! Nothing here changes what a thread goes on *with*: that stays as it was resolved, by hash.

use serde::{Deserialize, Serialize};

use crate::bundle::BundleKind;
use crate::canonical::{self, CanonicalError};
use crate::hash::ContentHash;
use crate::name::Name;
use crate::time::Timestamp;

/// One thing that a question rests on and that is another now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Difference {
    /// The source's commit: HEAD, or what the thread was told to begin with.
    SourceCommit {
        path: String,
        /// `None`: there was no commit yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is: Option<String>,
    },
    /// Files of the source were written or taken away since it was taken.
    SourceFiles {
        path: String,
        /// Some of them, in order.
        files: Vec<String>,
        /// How many more than are listed.
        #[serde(default)]
        more: u64,
    },
    /// The source is not there any more.
    SourceGone { path: String },
    /// Another version of a bundle was registered since the thread began. The thread goes on with its own.
    NewerBundle { kind: BundleKind, name: Name, was: ContentHash, is: ContentHash, registered_at: Timestamp },
    /// A secret has another value. The thread goes on with the new one: only the reference is the thread's own.
    SecretRotated { secret: String, at: Timestamp },
    /// A secret's time is over: the next dispatch cannot start until it is stored again.
    SecretExpired { secret: String, at: Timestamp },
    /// A secret is not stored any more.
    SecretMissing { secret: String },
}

impl Difference {
    /// Says what it is in one line, for a person.
    pub fn text(&self) -> String {
        let short = |commit: &Option<String>| match commit {
            Some(commit) => format!("`{}`", commit.get(..12).unwrap_or(commit)),
            None => "nothing".to_owned(),
        };
        match self {
            Self::SourceCommit { path, was, is } => {
                format!("`{path}` moved from {} to {}", short(was), short(is))
            }
            Self::SourceFiles { path, files, more } => {
                let listed: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
                let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
                format!("files of `{path}` changed: {}{more}", listed.join(", "))
            }
            Self::SourceGone { path } => format!("`{path}` is not there any more"),
            Self::NewerBundle { kind, name, is, registered_at, .. } => {
                format!(
                    "a newer {kind} `{name}` was registered at {registered_at} ({is}); the thread keeps its own"
                )
            }
            Self::SecretRotated { secret, at } => format!("the secret `{secret}` got another value at {at}"),
            Self::SecretExpired { secret, at } => format!("the secret `{secret}` expired at {at}"),
            Self::SecretMissing { secret } => format!("the secret `{secret}` is not stored any more"),
        }
    }
}

/// Returns what somebody says who has seen these differences and answers all the same. Another difference has another.
pub fn hash(differences: &[Difference]) -> Result<ContentHash, CanonicalError> {
    canonical::hash(&differences)
}

/// What an answerer knows of the differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Despite {
    /// Nothing: where the route asks again, the answer does not count yet.
    #[default]
    Nothing,
    /// Exactly those with this [`hash`].
    Seen(ContentHash),
    /// Whatever has changed.
    Anything,
}

impl Despite {
    /// Tells whether the answerer accepts these differences.
    pub fn accepts(self, differences: &[Difference]) -> bool {
        differences.is_empty()
            || match self {
                Self::Nothing => false,
                Self::Seen(seen) => hash(differences).is_ok_and(|hash| hash == seen),
                Self::Anything => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn moved(to: &str) -> Difference {
        Difference::SourceCommit { path: "/p".into(), was: Some("a".repeat(40)), is: Some(to.repeat(40)) }
    }

    #[test]
    fn a_difference_is_told_in_one_line_and_kept_as_it_is() {
        assert_eq!(moved("b").text(), "`/p` moved from `aaaaaaaaaaaa` to `bbbbbbbbbbbb`");
        let files =
            Difference::SourceFiles { path: "/p".into(), files: vec!["a".into(), "b".into()], more: 3 };
        assert_eq!(files.text(), "files of `/p` changed: `a`, `b` and 3 more");
        let kept = serde_json::to_value(&files).unwrap();
        assert_eq!(kept, json!({"what": "source-files", "path": "/p", "files": ["a", "b"], "more": 3}));
        assert_eq!(serde_json::from_value::<Difference>(kept).unwrap(), files);
    }

    #[test]
    fn who_has_seen_one_difference_has_not_seen_another() {
        let (one, other) = (vec![moved("b")], vec![moved("c")]);
        let seen = Despite::Seen(hash(&one).unwrap());
        assert!(seen.accepts(&one) && !seen.accepts(&other) && seen.accepts(&[]));
        assert!(Despite::Anything.accepts(&other) && !Despite::Nothing.accepts(&one));
        assert!(Despite::Nothing.accepts(&[]), "there is nothing to be seen");
    }
}
