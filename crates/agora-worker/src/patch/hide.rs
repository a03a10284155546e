//! Hides secrets in a change, so that what is shown still applies.
//!
//! New text can be changed: there is only what the patch says. Old text cannot: it must be found again as it was.

use std::borrow::Cow;

use super::left_out::Why;
use super::text::{Lines, is_comparable, lines};
use crate::redact::Redactor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    /// The whole content, not readable.
    Literal,
}

/// A change that may be shown.
#[derive(Debug)]
pub(super) struct Hidden<'a> {
    pub(super) new: Cow<'a, [u8]>,
    pub(super) form: Form,
    pub(super) redacted: bool,
    /// The old text holds a secret somewhere: no line with it may be shown.
    pub(super) guarded: bool,
}

pub(super) fn hide<'a>(
    redactor: &Redactor,
    old: &'a [u8],
    new: &'a [u8],
    is_link: bool,
    effort: &mut u64,
) -> Result<Hidden<'a>, Why> {
    let is_binary = old.contains(&0) || new.contains(&0);
    let (in_old, in_new) = (redactor.holds(old), redactor.holds(new));
    let comparable = is_comparable(old) && is_comparable(new);
    if (in_old || in_new) && (is_binary || is_link) {
        return Err(Why::Secret);
    }
    let form = if is_binary || !comparable { Form::Literal } else { Form::Text };
    if !in_old {
        return Ok(Hidden { new: redactor.bytes(new), form, redacted: in_new, guarded: false });
    }
    if !comparable || crosses_lines(redactor, old) || crosses_lines(redactor, new) {
        return Err(Why::Secret);
    }
    let new = if in_new { added_hidden(redactor, old, new, effort) } else { Cow::Borrowed(new) };
    let redacted = matches!(new, Cow::Owned(_));
    Ok(Hidden { new, form, redacted, guarded: true })
}

/// Tells whether a secret goes over the end of a line; then no line alone shows that it is a part of one.
fn crosses_lines(redactor: &Redactor, text: &[u8]) -> bool {
    let mut rest: &[u8] = &redactor.bytes(text);
    for line in lines(text) {
        match rest.strip_prefix(&*redactor.bytes(line)) {
            Some(after) => rest = after,
            None => return true,
        }
    }
    !rest.is_empty()
}

/// Hides the secrets in the lines that are new. A line that was there before is not shown, or must be as it was.
fn added_hidden<'a>(redactor: &Redactor, old: &'a [u8], new: &'a [u8], effort: &mut u64) -> Cow<'a, [u8]> {
    let compared = Lines::compare(old, new, effort);
    let hide =
        |(line, added): (&'a [u8], bool)| if added { redactor.bytes(line) } else { Cow::Borrowed(line) };
    if compared.new_lines().all(|(line, added)| !added || !redactor.holds(line)) {
        return Cow::Borrowed(new);
    }
    let hidden: Vec<Cow<'_, [u8]>> = compared.new_lines().map(hide).collect();
    Cow::Owned(hidden.concat())
}
