//! The only place that prints: results to standard output, everything else to standard error.
//!
//! What is printed may hold an agent's words. A terminal would do what they say, so a terminal gets them without what it would obey, here
//! where nobody can forget it. A pipe gets every byte.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use serde_json::json;

use crate::ask;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::plain::{Harmless, plain, plain_json};

/// How results are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    /// Exactly one JSON document on standard output, also on error.
    Json,
}

/// Speaks to whoever is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    form: Form,
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

impl Ui {
    pub(crate) fn new(form: Form) -> Self {
        Self { form }
    }

    /// Gives the result: as JSON, or as the text that a person reads. Only the one that is wanted is made.
    pub(crate) fn result<T: Serialize>(
        &self,
        json: impl FnOnce() -> T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Text => print(&text()),
            Form::Json => print_document(&mut standard_output(Form::Json), &json()),
        }
    }

    /// Gives a result that may be long: its text goes out as it is made.
    pub(crate) fn long_result<T: Serialize>(
        &self,
        json: impl FnOnce() -> T,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Text => {
                let mut out = BufWriter::with_capacity(PIECE_BYTES, standard_output(Form::Text));
                written(text(&mut out).and_then(|()| out.flush()))
            }
            Form::Json => print_document(&mut standard_output(Form::Json), &json()),
        }
    }

    /// Gives one line of a result that comes piece by piece: as JSON, or as text.
    pub(crate) fn line<T: Serialize>(
        &self,
        json: impl FnOnce() -> T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.result(json, text)
    }

    /// Tells whether somebody is there to be asked something.
    pub(crate) fn can_ask(&self) -> bool {
        self.form == Form::Text && ask::somebody_is_there()
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Says what went wrong with something that is itself the result. Not with `--json`, where it is in the document.
    pub(crate) fn complain(&self, what: &str, why: &str) {
        if self.form == Form::Text {
            let (what, why) = (shown(what), shown(why.trim_end()));
            say(format_args!("{ERROR}error:{ERROR:#} {what}\n  because {why}\n"));
        }
    }

    /// Says something beside the result. Not with `--json`, whose reader is a program.
    pub(crate) fn note(&self, text: impl Display) {
        if self.form == Form::Text {
            say(format_args!("{}\n", shown(text)));
        }
    }

    /// Says what would be useful next.
    pub(crate) fn hint(&self, text: impl Display) {
        if self.form == Form::Text {
            say(format_args!("{HINT}hint:{HINT:#} {}\n", shown(text)));
        }
    }

    /// Warns, whoever reads.
    pub(crate) fn warn(&self, text: impl Display) {
        say(format_args!("{WARNING}warning:{WARNING:#} {}\n", shown(text)));
    }

    /// Warns of a failure that keeps nobody from the rest: what failed, why, and what to do next.
    pub(crate) fn warning(&self, failure: &Failure) {
        say(format_args!("{WARNING}warning:{WARNING:#} {}\n", in_full(failure).trim_end()));
    }

    /// Says what failed, why, and what to do next.
    pub(crate) fn failure(&self, failure: &Failure) -> Exit {
        match self.form {
            Form::Text => {
                say(format_args!("{ERROR}error:{ERROR:#} {}", in_full(failure)));
            }
            Form::Json => {
                let message = std::iter::once(&failure.message)
                    .chain(&failure.causes)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(": ");
                let error =
                    json!({"error": {"code": failure.code, "message": message, "hints": failure.hints}});
                // Nothing better can be done about a failure to say that something failed.
                let _ = print_document(&mut standard_output(Form::Json), &error);
            }
        }
        failure.exit
    }
}

/// Returns how a path stands in a document. JSON is Unicode and a name on disk need not be: what of it is not becomes `\u{fffd}`, as in
/// every text that shows it. Serialised as it is, it would be an error, and in `json!` a panic.
pub(crate) fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// Writes bytes to standard output: a patch need not be text.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    write_to(&mut standard_output(Form::Text), bytes)
}

/// Words a failure, with why and what to do next on lines of their own.
fn in_full(failure: &Failure) -> String {
    let mut text = format!("{}\n", shown(&failure.message));
    text.extend(failure.causes.iter().map(|cause| format!("  because {}\n", shown(cause))));
    text.extend(failure.hints.iter().map(|hint| format!("{HINT}hint:{HINT:#} {}\n", shown(hint))));
    text
}

/// Writes a result, which has no colours in it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write_to(&mut standard_output(Form::Text), text.as_bytes())
}

/// What of a long text is kept before it goes out.
const PIECE_BYTES: usize = 16 * 1024;

/// What of a document is kept before it goes out: most fit, and a list of thousands need not be in memory twice.
const DOCUMENT_BYTES: usize = 64 * 1024;

/// Writes a document and the end of its line.
fn print_document(out: &mut impl Write, document: &impl Serialize) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(DOCUMENT_BYTES, out);
    match serde_json::to_writer(&mut out, document) {
        Err(error) if !error.is_io() => {
            // What is kept of half a document stays where it is.
            let _ = out.into_parts();
            Err(Failure::bug(format!("the result cannot be written as JSON: {error}")))
        }
        Err(error) => written(Err(error.into())),
        Ok(()) => written(out.write_all(b"\n").and_then(|()| out.flush())),
    }
}

/// Writes help, whose colours are for terminals.
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    write_to(&mut anstream::stdout().lock(), text.as_bytes())
}

/// Writes everything.
fn write_to(out: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Tells what came of writing. A reader that has gone away has seen enough.
fn written(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::outside("output-failed", format!("the result cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns when whoever reads the results has gone away: there may be nothing to write for long, by which one would notice.
pub(crate) async fn nobody_reads() {
    let (sender, gone) = tokio::sync::oneshot::channel();
    let look = move || {
        let stdout = io::stdout();
        // Nothing is asked for; that the other end is closed is told all the same.
        let mut closed = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut closed, None) == Err(rustix::io::Errno::INTR) {}
        let _ = sender.send(());
    };
    let looking = std::thread::Builder::new().name("reader".into()).spawn(look);
    if looking.is_err() || gone.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns standard output: for a pipe as it is, for a terminal without what it would obey.
fn standard_output(form: Form) -> Box<dyn Write> {
    let stdout = io::stdout().lock();
    match form {
        _ if !stdout.is_terminal() => Box::new(stdout),
        Form::Text => Box::new(Harmless::new(stdout, plain)),
        Form::Json => Box::new(Harmless::new(stdout, plain_json)),
    }
}

/// Returns words for standard error, in the same way. Our own colours come around them.
fn shown(text: impl Display) -> String {
    let text = text.to_string();
    if io::stderr().is_terminal() { plain(&text) } else { text }
}

/// Writes to standard error, if anybody listens there.
fn say(text: std::fmt::Arguments<'_>) {
    let _ = anstream::stderr().lock().write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_whole_however_long_it_is() {
        for length in [0, DOCUMENT_BYTES - 3, DOCUMENT_BYTES - 2, DOCUMENT_BYTES, 5 * DOCUMENT_BYTES] {
            let (text, mut out) = ("x".repeat(length), Vec::new());
            print_document(&mut out, &text).unwrap();
            assert_eq!(out, format!("\"{text}\"\n").into_bytes());
        }
    }

    #[test]
    fn of_what_is_no_document_nothing_is_written() {
        let broken = std::collections::BTreeMap::from([((1, 2), "a pair is no key")]);
        let mut out = Vec::new();
        let failure = print_document(&mut out, &(0, broken)).unwrap_err();
        assert_eq!((failure.exit, out), (Exit::Bug, Vec::new()));
    }

    #[test]
    fn a_reader_that_went_away_has_seen_enough() {
        struct Gone(io::ErrorKind);
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for length in [1, 2 * DOCUMENT_BYTES] {
            let text = "x".repeat(length);
            assert!(print_document(&mut Gone(io::ErrorKind::BrokenPipe), &text).is_ok());
            assert!(print_document(&mut Gone(io::ErrorKind::StorageFull), &text).is_err());
        }
    }
}
