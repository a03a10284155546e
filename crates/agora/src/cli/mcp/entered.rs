//! What comes of entering something into a person's file.

/// A file's text with one entry more, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// The same entry is there.
    Already,
    /// An entry of that name is there, and it is another.
    Another,
    /// The text is nothing that can be added to without changing more than that.
    Unfit,
    Text(String),
}
