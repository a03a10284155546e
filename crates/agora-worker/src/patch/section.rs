//! The part of a patch that is about one path.

use agora_core::git::patch::quoted;
use sha1::{Digest, Sha1};

use super::hide::{Form, Hidden, hide};
use super::left_out::Why;
use super::source::Brought;
use super::{binary, text};
use crate::redact::Redactor;

/// Stands for the id of a file that is not there.
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// One side of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) mode: Mode,
    pub(super) bytes: Vec<u8>,
}

/// What git records of a file's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    Executable,
    Link,
}

impl Mode {
    pub(super) fn of_file(executable: bool) -> Self {
        if executable { Self::Executable } else { Self::Plain }
    }

    fn digits(self) -> &'static str {
        match self {
            Self::Plain => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }
}

/// Text that grows as far as there is room in the patch.
#[derive(Debug)]
pub(super) struct Section {
    bytes: Vec<u8>,
    room: u64,
    /// What comparing lines may still cost.
    pub(super) effort: u64,
    pub(super) insertions: u64,
    pub(super) deletions: u64,
    /// Something in it was hidden.
    pub(super) redacted: bool,
    /// Whose changes are in it.
    pub(super) brought: Brought,
}

impl Section {
    pub(super) fn new(room: u64, effort: u64) -> Self {
        let (bytes, brought) = (Vec::new(), Brought::Plain);
        Self { bytes, room, effort, insertions: 0, deletions: 0, redacted: false, brought }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Why> {
        if (self.bytes.len() + bytes.len()) as u64 > self.room {
            return Err(Why::PatchFull);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn line(&mut self, line: &str) -> Result<(), Why> {
        self.push(line.as_bytes())?;
        self.push(b"\n")
    }

    /// Returns the text, unless it holds a secret in spite of all.
    pub(super) fn finish(self, redactor: &Redactor) -> Result<Vec<u8>, Why> {
        if redactor.holds(&self.bytes) { Err(Why::Secret) } else { Ok(self.bytes) }
    }

    /// Writes a file that appears, goes, or differs. There is at least one side, and two that are alike write nothing.
    pub(super) fn change(
        &mut self,
        path: &[u8],
        old: Option<&Side>,
        new: Option<&Side>,
        redactor: &Redactor,
    ) -> Result<(), Why> {
        let modes = (old.map(|side| side.mode), new.map(|side| side.mode));
        let (old_bytes, new_bytes) = (bytes(old), bytes(new));
        let (mode_differs, two) = (modes.0 != modes.1, modes.0.is_some() && modes.1.is_some());
        if two && old_bytes == new_bytes {
            return if mode_differs { self.header(path, modes) } else { Ok(()) };
        }
        let is_link = modes.0.or(modes.1) == Some(Mode::Link);
        let hidden = hide(redactor, old_bytes, new_bytes, is_link, &mut self.effort)?;
        self.redacted |= hidden.redacted;
        if two && *old_bytes == *hidden.new {
            // Without its secret it is what it was: there is nothing to show but a mode.
            return if mode_differs { self.header(path, modes) } else { Err(Why::Secret) };
        }
        self.header(path, modes)?;
        let id = |there: bool, bytes: &[u8]| if there { blob_id(bytes) } else { NO_ID.to_owned() };
        let (from, to) = (id(old.is_some(), old_bytes), id(new.is_some(), &hidden.new));
        let mode = modes.0.filter(|_| !mode_differs).map(|mode| format!(" {}", mode.digits()));
        self.line(&format!("index {from}..{to}{}", mode.unwrap_or_default()))?;
        self.body(path, (old.is_some(), new.is_some()), old_bytes, &hidden, redactor)
    }

    /// Writes a file that differs, also if it becomes a link: to git that is one thing that goes and another that comes.
    pub(super) fn difference(
        &mut self,
        path: &[u8],
        old: &Side,
        new: &Side,
        redactor: &Redactor,
    ) -> Result<(), Why> {
        if (old.mode == Mode::Link) == (new.mode == Mode::Link) {
            return self.change(path, Some(old), Some(new), redactor);
        }
        self.change(path, Some(old), None, redactor)?;
        self.change(path, None, Some(new), redactor)
    }

    fn header(&mut self, path: &[u8], modes: (Option<Mode>, Option<Mode>)) -> Result<(), Why> {
        self.line(&format!("diff --git {} {}", quoted("a/", path), quoted("b/", path)))?;
        match modes {
            (None, Some(new)) => self.line(&format!("new file mode {}", new.digits())),
            (Some(old), None) => self.line(&format!("deleted file mode {}", old.digits())),
            (Some(old), Some(new)) if old != new => self.modes(old, new),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }

    fn modes(&mut self, old: Mode, new: Mode) -> Result<(), Why> {
        self.line(&format!("old mode {}", old.digits()))?;
        self.line(&format!("new mode {}", new.digits()))
    }

    fn body(
        &mut self,
        path: &[u8],
        there: (bool, bool),
        old: &[u8],
        hidden: &Hidden<'_>,
        redactor: &Redactor,
    ) -> Result<(), Why> {
        match hidden.form {
            Form::Text if old.is_empty() && hidden.new.is_empty() => Ok(()),
            Form::Text => {
                self.line(&format!("--- {}", side_name(there.0, "a/", path)))?;
                self.line(&format!("+++ {}", side_name(there.1, "b/", path)))?;
                text::hunks(self, old, &hidden.new, hidden.guarded.then_some(redactor))
            }
            Form::Literal => {
                self.line("GIT binary patch")?;
                binary::literal(self, &hidden.new)?;
                // The other way round, so that the patch can be taken back.
                binary::literal(self, old)
            }
        }
    }

    /// Writes that a file has another path now, and the same content.
    pub(super) fn rename(&mut self, old: (&[u8], Mode), new: (&[u8], Mode)) -> Result<(), Why> {
        self.line(&format!("diff --git {} {}", quoted("a/", old.0), quoted("b/", new.0)))?;
        if old.1 != new.1 {
            self.modes(old.1, new.1)?;
        }
        self.line("similarity index 100%")?;
        self.line(&format!("rename from {}", quoted("", old.0)))?;
        self.line(&format!("rename to {}", quoted("", new.0)))
    }
}

/// A side that is not there is empty.
fn bytes(side: Option<&Side>) -> &[u8] {
    side.map_or(&[], |side| &side.bytes)
}

/// A name with a space ends in a tab: without it, readers take what follows the space for a date.
fn side_name(there: bool, prefix: &str, path: &[u8]) -> String {
    if !there {
        return "/dev/null".to_owned();
    }
    let mut name = quoted(prefix, path);
    if name.contains(' ') && !name.starts_with('"') {
        name.push('\t');
    }
    name
}

/// Returns the id that git gives to a content.
pub(super) fn blob_id(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_what_git_says() {
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn a_section_does_not_outgrow_its_room() {
        let mut section = Section::new(5, 0);
        assert_eq!(section.push(b"12345"), Ok(()));
        assert_eq!(section.push(b"6"), Err(Why::PatchFull));
    }
}
