//! What keeps layers from being laid over each other. Places are named, never what stands there.

use std::fmt;

use serde_json::Value;

use super::{MERGED_BYTES, Owner};
use crate::path::BundlePath;
use crate::strict::StrictError;

/// How much of a place in a file a person is shown: keys are somebody else's, and may be as long as the file.
const SHOWN_PLACE: usize = 200;

/// Says why layers have no honest result. agora does not pick a side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("`{file}` is a file in `{file_of}`, but the directory of `{below}` in `{below_of}`")]
    FileAndDirectory { file: BundlePath, file_of: Owner, below: BundlePath, below_of: Owner },
    #[error(
        "`{one}` in `{one_of}` and `{other}` in `{other_of}` differ only in letter case, and would be one file elsewhere"
    )]
    Case { one: BundlePath, one_of: Owner, other: BundlePath, other_of: Owner },
    #[error("`{path}` cannot be merged: {place} is {earlier_is} in `{earlier}`, but {later_is} in `{later}`")]
    Types {
        path: &'static str,
        place: Place,
        earlier: Owner,
        earlier_is: JsonType,
        later: Owner,
        later_is: JsonType,
    },
    #[error("`{path}` of `{owner}` cannot be merged with that of `{other}`: {fault}")]
    Unmergeable { path: &'static str, owner: Owner, other: Owner, fault: MergeFault },
}

/// Says why one file cannot be merged with any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeFault {
    #[error("it has {0} bytes, the most is {MERGED_BYTES} (1 MiB)")]
    TooLarge(u64),
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error(transparent)]
    Json(StrictError),
    #[error("it is {0}, and not {1}")]
    Shape(JsonType, &'static str),
}

/// Where in a JSON file: the keys that lead there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(pub Vec<String>);

impl fmt::Display for Place {
    /// Writes a JSON pointer that is fit for a screen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the whole file");
        }
        let mut left = SHOWN_PLACE;
        f.write_str("`")?;
        for key in &self.0 {
            f.write_str("/")?;
            for character in key.chars().flat_map(char::escape_debug) {
                let Some(still) = left.checked_sub(1) else { return f.write_str("…`") };
                left = still;
                write!(f, "{character}")?;
            }
        }
        f.write_str("`")
    }
}

/// The six types of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    Null,
    Boolean,
    Number,
    Text,
    List,
    Object,
}

impl JsonType {
    /// Returns the type of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }
}

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
        })
    }
}
