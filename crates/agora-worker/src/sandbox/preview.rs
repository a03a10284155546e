//! The wall as it would be built for a dispatch, without one: for `agora explain --sandbox`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agora_core::wall::{Built, Wish};
use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use crate::child::kernel_can_limit;
use crate::child::{Brief, HearError, hear};

/// It takes milliseconds, and some more where a path has many programs.
const DEADLINE: Duration = Duration::from_secs(10);
/// A view has some dozens of paths.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// What a wall is asked for, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    pub wish: Wish,
    /// `$AGORA_HOME`, which nothing shows.
    pub agora_home: PathBuf,
    /// The user's home, where tools are.
    pub home: Option<PathBuf>,
    /// Where the objects of the repository are that would be worked on.
    pub lent: Vec<PathBuf>,
    /// The target's limit on memory.
    pub memory_bytes: Option<u64>,
}

/// What would stand around an agent, or why nothing can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Preview {
    Built(Box<Built>),
    Refused(String),
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    #[error("the wall could not be tried")]
    Hear(#[source] HearError),
    #[error("a path that is to be hidden or shown is no text")]
    Unasked(#[source] serde_json::Error),
    #[error("the answer is not a view")]
    Unreadable(#[source] serde_json::Error),
}

/// Looks what would be visible, by letting `own_executable worker view` try: a wall is tried in a process with one thread.
pub fn preview(
    own_executable: &Path,
    question: &Question,
    path: Option<OsString>,
) -> Result<Preview, PreviewError> {
    let text = serde_json::to_string(question).map_err(PreviewError::Unasked)?;
    let brief = Brief {
        program: own_executable.to_owned(),
        arguments: vec!["worker".into(), "view".into(), text.into()],
        environment: path.map(|path| ("PATH".into(), path)).into_iter().collect(),
        deadline: DEADLINE,
        keep: LONGEST_ANSWER,
    };
    let heard = hear(&brief).map_err(PreviewError::Hear)?;
    serde_json::from_slice(&heard.stdout).map_err(PreviewError::Unreadable)
}

/// Answers as `worker view`, in a process with one thread. Returns what is to be printed; `None` when the question is none.
#[cfg(target_os = "linux")]
pub fn view_in_this_process(question: &str) -> Option<String> {
    use super::wall::{Ground, Inside, Outer, Trial, View, say_uncounted};

    let Question { wish, agora_home, home, lent, memory_bytes } = serde_json::from_str(question).ok()?;
    let trial = Trial::of(wish.isolation, Outer::machine());
    let dispatch = agora_home.join("dispatches/ID");
    let own = Inside {
        work: dispatch.join("work"),
        home: dispatch.join("home"),
        tmp: dispatch.join("tmp"),
        aids: dispatch.join("aids"),
    };
    #[expect(clippy::disallowed_methods, reason = "this process is started with this one variable")]
    let path = std::env::var_os("PATH");
    let ground = Ground {
        wish: &wish,
        trial: &trial,
        home: home.as_deref(),
        path: path.as_deref(),
        own: &own,
        // A target is for every runtime, and most have some.
        has_aids: true,
        lent: &lent,
        closed: &agora_home,
    };
    let preview = match View::choose(&ground) {
        Ok(View { mut built, .. }) => {
            say_uncounted(&mut built, memory_bytes, kernel_can_limit);
            Preview::Built(Box::new(built))
        }
        Err(error) => Preview::Refused(error.to_string()),
    };
    serde_json::to_string(&preview).ok()
}
