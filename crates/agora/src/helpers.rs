//! A person's own programs, at their terminal: a pager to read with, an editor to write with.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What marks a line of a prepared file that is no part of the answer. A heading in Markdown is part of it.
pub(crate) const COMMENT: &str = "#:";

/// As much as an answer may have.
const ANSWER_BYTES: u64 = 1 << 20;

/// Which programs these are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Helpers {
    /// `$VISUAL` or `$EDITOR`, with its arguments.
    pub(crate) editor: Option<OsString>,
    /// `$PAGER`, with its arguments. `None`: there is none, and everything is printed.
    pub(crate) pager: Option<OsString>,
    /// Whether somebody said how `less` is to behave.
    pub(crate) less_is_set: bool,
    pub(crate) no_colour: bool,
}

/// What somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edited {
    Text(String),
    /// Nothing, and why.
    Nothing(String),
}

impl Helpers {
    pub(crate) fn colours(&self) -> bool {
        !self.no_colour && io::stderr().is_terminal()
    }

    /// Lets somebody write into a prepared file. What is in it beside comments is theirs.
    pub(crate) fn edit(&self, prepared: &str) -> io::Result<Edited> {
        let nothing = |why: String| Ok(Edited::Nothing(why));
        let Some(editor) = &self.editor else {
            return nothing("there is no editor here: set `VISUAL` or `EDITOR`".to_owned());
        };
        let dir = crate::terminal::scratch("agora-answer")?;
        let file = dir.path().join("ANSWER.md");
        fs::write(&file, prepared)?;
        let ended = start(editor, Some(&file), Stdio::inherit(), true)?.wait()?;
        if !ended.success() {
            return nothing(format!("the editor ended with {ended}"));
        }
        if fs::metadata(&file).map(|meta| meta.len()).unwrap_or(0) > ANSWER_BYTES {
            return nothing(format!("what was written has more than {ANSWER_BYTES} bytes"));
        }
        match fs::read_to_string(&file) {
            Ok(text) => Ok(written(&text)),
            Err(error) => nothing(format!("what was written cannot be read: {error}")),
        }
    }

    /// Tells whether the screen is as it was when the pager has ended.
    pub(crate) fn gives_the_screen_back(&self) -> bool {
        !self.less_is_set
            && self.pager.as_ref().is_some_and(|pager| pager.as_encoded_bytes().starts_with(b"less"))
    }

    /// Shows a text with the pager. The caller has made it harmless.
    pub(crate) fn page(&self, text: &str) -> io::Result<()> {
        let Some(pager) = &self.pager else {
            return io::stderr().lock().write_all(text.as_bytes());
        };
        let mut child = start(pager, None, Stdio::piped(), self.less_is_set)?;
        if let Some(mut input) = child.stdin.take() {
            // Whoever has read enough ends it.
            let _ = input.write_all(text.as_bytes());
        }
        child.wait().map(drop)
    }
}

/// Starts a program as the shell would, for it may come with arguments. What it shows goes to the terminal, also where a result
/// goes elsewhere.
#[expect(clippy::disallowed_methods, reason = "a person's own editor and pager, at their terminal")]
fn start(program: &OsString, file: Option<&Path>, input: Stdio, less_is_set: bool) -> io::Result<Child> {
    let mut line = program.clone();
    line.push(" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).arg("agora").args(file);
    command.stdin(input).stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    if !less_is_set {
        // Colours are shown, and the screen is given back as it was.
        command.env("LESS", "R");
    }
    command.spawn()
}

fn written(text: &str) -> Edited {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(COMMENT)).collect();
    let blank = |line: &&str| line.trim().is_empty();
    let from = lines.iter().position(|line| !blank(line));
    let to = lines.iter().rposition(|line| !blank(line));
    match from.zip(to) {
        Some((from, to)) => Edited::Text(lines[from..=to].join("\n")),
        None => Edited::Nothing("nothing was written".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(editor: &str) -> Edited {
        let helpers = Helpers { editor: Some(editor.into()), ..Helpers::default() };
        helpers.edit("\n#: Why?\n#: More.\n").unwrap()
    }

    #[test]
    fn what_is_written_is_the_answer_and_comments_are_not() {
        assert_eq!(
            edit("printf '\\n# Because\\n\\n  of it\\n#: Why?\\n' >"),
            Edited::Text("# Because\n\n  of it".into())
        );
        let nothing = Edited::Nothing("nothing was written".into());
        assert_eq!(edit("true"), nothing, "an unchanged file");
        assert_eq!(edit(": >"), nothing, "an empty one");
        assert!(matches!(edit("false"), Edited::Nothing(why) if why.contains("exit status: 1")));
        assert!(matches!(edit("rm"), Edited::Nothing(why) if why.contains("cannot be read")));
        assert!(
            matches!(Helpers::default().edit("").unwrap(), Edited::Nothing(why) if why.contains("EDITOR"))
        );
    }
}
