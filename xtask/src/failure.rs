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

    /// Returns what failed and why without line breaks, to fit into a cell of a table.
    pub(crate) fn on_one_line(&self) -> String {
        let last_line = self.why.as_deref().and_then(|why| why.trim().lines().last());
        last_line.map_or_else(|| self.what.clone(), |why| format!("{}: {}", self.what, why.trim()))
    }
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
}
