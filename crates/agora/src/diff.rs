//! What an agent has changed so far, for whoever is asked: in a few lines, or whole.

use agora_core::DispatchId;
use agora_engine::Agora;

use crate::cli::counted;
use crate::failure::Failure;
use crate::plain::{fitting, plain};

/// How many files are named before the rest is counted.
const SHOWN_FILES: usize = 5;
/// How much of a patch is read: more than anybody reads.
const MOST_BYTES: usize = 16 << 20;
const PIECE: u64 = 1 << 20;

/// A patch, and how much of it is whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diff {
    text: String,
    files: Vec<FileChange>,
}

/// What changed in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileChange {
    name: String,
    insertions: usize,
    deletions: usize,
}

impl Diff {
    /// Reads the patch of a dispatch. `None`: it changed nothing.
    pub(crate) async fn of(agora: &Agora, dispatch: &DispatchId) -> Result<Option<Self>, Failure> {
        let mut bytes = Vec::new();
        while bytes.len() < MOST_BYTES {
            let piece = agora.read_left(dispatch, "patch.diff", bytes.len() as u64, PIECE).await?;
            match piece.filter(|piece| !piece.is_empty()) {
                Some(piece) => bytes.extend_from_slice(&piece),
                None => break,
            }
        }
        Ok(Self::new(&bytes))
    }

    fn new(patch: &[u8]) -> Option<Self> {
        let text = plain(&String::from_utf8_lossy(patch));
        let mut files: Vec<FileChange> = Vec::new();
        let mut in_header = false;
        for line in text.lines() {
            if let Some(names) = line.strip_prefix("diff --git ") {
                files.push(FileChange { name: name(names), insertions: 0, deletions: 0 });
                in_header = true;
            }
            let Some(file) = files.last_mut() else { continue };
            match line.as_bytes().first() {
                Some(b'@') => in_header = false,
                Some(b'+') if !in_header => file.insertions += 1,
                Some(b'-') if !in_header => file.deletions += 1,
                _ => {}
            }
        }
        (!files.is_empty()).then_some(Self { text, files })
    }

    /// Says in a few lines what changed.
    pub(crate) fn summary(&self, columns: usize) -> Vec<String> {
        let sum = |of: fn(&FileChange) -> usize| self.files.iter().map(of).sum::<usize>();
        let (plus, minus) = (sum(|file| file.insertions), sum(|file| file.deletions));
        let files = counted(self.files.len(), "file");
        let mut lines = vec![fitting(&format!("changed so far: {files} (+{plus} -{minus})"), columns)];
        for file in self.files.iter().take(SHOWN_FILES) {
            let line = format!("  {} +{} -{}", file.name, file.insertions, file.deletions);
            lines.push(fitting(&line, columns));
        }
        if self.files.len() > SHOWN_FILES {
            lines.push(format!("  … and {} more", self.files.len() - SHOWN_FILES));
        }
        lines
    }

    /// Returns the whole patch, in which nothing moves a cursor and no colour is the agent's.
    pub(crate) fn text(&self, colours: bool) -> String {
        if !colours {
            return self.text.clone();
        }
        let mut in_header = true;
        let paint = |line: &str| {
            match line.as_bytes().first() {
                Some(b'd') => in_header = true,
                Some(b'@') => in_header = false,
                _ => {}
            }
            let colour = match (in_header, line.as_bytes().first()) {
                (true, Some(_)) => "\x1b[1m",
                (false, Some(b'@')) => "\x1b[36m",
                (false, Some(b'+')) => "\x1b[32m",
                (false, Some(b'-')) => "\x1b[31m",
                _ => return format!("{line}\n"),
            };
            format!("{colour}{line}\x1b[0m\n")
        };
        self.text.lines().map(paint).collect()
    }
}

/// Takes the new name of `a/old b/new`. Only to be read: a name with a space and ` b/` in it is shown too long.
fn name(names: &str) -> String {
    let bare = names.trim_matches('"');
    let half = bare.len() / 2;
    match (bare.get(..half), bare.get(half + 1..)) {
        (Some(old), Some(new)) if old.strip_prefix("a/") == new.strip_prefix("b/") => {
            new.strip_prefix("b/").unwrap_or(new).to_owned()
        }
        _ => bare.rsplit_once(" b/").map_or(bare, |(_, new)| new).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/src/a b.rs b/src/a b.rs\nindex 1..2 100644\n--- a/src/a b.rs\n+++ b/src/a b.rs\n\
        @@ -1,2 +1,2 @@\n-old\x1b[2J\n+new\n same\ndiff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n\
        diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+--- a\n+two\n";

    #[test]
    fn a_patch_is_told_in_a_few_lines() {
        let diff = Diff::new(PATCH.as_bytes()).unwrap();
        insta::assert_snapshot!(diff.summary(80).join("\n"), @r"
        changed so far: 3 files (+3 -1)
          src/a b.rs +1 -1
          y +0 -0
          n +2 -0
        ");
        assert_eq!(Diff::new(b""), None);
        assert_eq!(
            Diff::new(&PATCH.repeat(2).into_bytes()).unwrap().summary(80).last().unwrap(),
            "  … and 1 more"
        );
    }

    #[test]
    fn what_an_agent_wrote_into_a_file_does_nothing_to_the_terminal() {
        let diff = Diff::new(PATCH.as_bytes()).unwrap();
        assert!(!diff.text(false).contains('\x1b'));
        let painted = diff.text(true);
        assert!(painted.contains("\x1b[31m-old\u{fffd}[2J\x1b[0m\n"), "{painted:?}");
        assert!(painted.contains("\x1b[32m+--- a\x1b[0m\n"), "{painted:?}");
    }
}
