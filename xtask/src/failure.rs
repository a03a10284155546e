//! The one error type: every failure here ends the run, so it only has to be read by a person.

use std::{fmt, io, path::Path};

/// What failed, why, and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: Option<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: None, hint: None }
    }

    /// Returns a failure to do `action` with a file, which an `io::Error` alone does not name.
    pub(crate) fn file(action: &str, path: &Path, source: &io::Error) -> Self {
        Self::new(format!("could not {action} `{}`", path.display())).because(source.to_string())
    }

    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns what failed and the line that says why, to fit into a cell of a table.
    pub(crate) fn on_one_line(&self) -> String {
        let why = self.why.as_deref().and_then(telling_line);
        why.map_or_else(|| self.what.clone(), |why| format!("{}: {why}", self.what))
    }
}

/// Most programs say last what went wrong. npm and cargo say it first, and go on.
fn telling_line(why: &str) -> Option<&str> {
    let is_first = |line: &&str| line.starts_with("npm error") || line.starts_with("error:");
    let mut lines = why.trim().lines();
    lines.clone().find(is_first).or_else(|| lines.next_back()).map(str::trim)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        for line in self.why.iter().flat_map(|why| why.trim_end().lines()) {
            write!(f, "\n  {line}")?;
        }
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn says_what_why_and_what_next() {
        let failure = Failure::new("could not bake").because("no oven\nno flour\n").hint("buy both");
        assert_eq!(failure.to_string(), "error: could not bake\n  no oven\n  no flour\nhint: buy both");
        assert_eq!(failure.on_one_line(), "could not bake: no flour");
    }

    #[test]
    fn the_line_that_tells_most_is_chosen() {
        let npm = "npm warn old\nnpm error code ETARGET\nnpm error A complete log is in a file";
        assert_eq!(Failure::new("npm").because(npm).on_one_line(), "npm: npm error code ETARGET");
        assert_eq!(Failure::new("no reason").on_one_line(), "no reason");
    }
}
