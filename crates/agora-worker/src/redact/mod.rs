//! Hides secrets in what others can read.
//!
//! A secret is looked for in every form that programs write it in (module `forms`), all of them at once (`search`), and also where
//! a program has broken it into lines (`broken`). Where two that were found overlap, both are hidden: what one leaves over could be
//! the rest of the other.

mod broken;
mod forms;
mod search;
mod stream;

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use agora_core::secret::SecretValue;
use aho_corasick::BuildError;
use serde_json::{Map, Number, Value};

use search::Search;
pub use stream::RedactingStream;

/// What stands where a secret stood.
pub const MARK: &str = "<redacted:secret>";

/// What may break a form once, beside as many bytes again as it has: a line that is far in, with its break written as escapes.
const BREAK: usize = 64;

/// Knows the secrets of one dispatch, in all their forms.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// `None` when there are no secrets: then nothing is looked for.
    forms: Option<Arc<Search>>,
    shortest: usize,
    longest: usize,
}

impl Redactor {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretValue>) -> Result<Self, BuildError> {
        let mut forms: Vec<Vec<u8>> =
            secrets.into_iter().flat_map(|secret| forms::of(secret.expose())).collect();
        forms.sort();
        forms.dedup();
        let lengths = || forms.iter().map(Vec::len);
        let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        let search = if forms.is_empty() { None } else { Some(Arc::new(Search::new(&forms)?)) };
        Ok(Self { forms: search, shortest, longest })
    }

    /// Hides the secrets in a text. It stays a text: every form begins and ends between characters.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Cow::Owned(text),
                Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
            },
        }
    }

    /// Hides the secrets in bytes.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let found = self.find(bytes);
        if found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut hidden = Vec::with_capacity(bytes.len());
        let mut rest = 0;
        for place in found {
            hidden.extend_from_slice(&bytes[rest..place.start]);
            hidden.extend_from_slice(MARK.as_bytes());
            rest = place.end;
        }
        hidden.extend_from_slice(&bytes[rest..]);
        Cow::Owned(hidden)
    }

    /// Hides the secrets in every text of a JSON value, also in keys, and in every number, which is a text then. Value by value, so
    /// that it stays JSON.
    pub fn json(&self, value: &mut Value) {
        self.walk(value, &|number| {
            let holds = self.holds(number.to_string().as_bytes());
            holds.then(|| Value::from(MARK))
        });
    }

    /// The same for what has a type of ours, whose numbers are counts and times of ours and stay numbers.
    pub(crate) fn typed_json(&self, value: &mut Value) {
        self.walk(value, &|_| None);
    }

    fn walk(&self, value: &mut Value, instead: &dyn Fn(&Number) -> Option<Value>) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(hidden) = self.text(text) {
                    *text = hidden;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, instead)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.walk(field, instead));
                if fields.keys().any(|key| self.holds(key.as_bytes())) {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields = renamed
                        .map(|(key, field)| (self.text(&key).into_owned(), field))
                        .collect::<Map<_, _>>();
                }
            }
            Value::Number(number) => {
                if let Some(other) = instead(number) {
                    *value = other;
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Tells whether a secret is in there.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let mut holds = false;
        let mut met = |_| {
            holds = true;
            ControlFlow::Break(())
        };
        if let Some(forms) = &self.forms
            && forms.each(bytes, &mut met).is_continue()
        {
            let _ = self.each_broken(forms, bytes, &mut met);
        }
        holds
    }

    /// Starts to hide secrets in output that comes piece by piece.
    pub fn stream(&self) -> RedactingStream<'_> {
        RedactingStream::new(Cow::Borrowed(self))
    }

    /// Starts the same, for a stream that outlives its maker. A redactor is cheap to clone for it.
    pub fn into_stream(self) -> RedactingStream<'static> {
        RedactingStream::new(Cow::Owned(self))
    }

    /// Finds every place that holds a secret, in order; places that touch or overlap are one.
    fn find(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let Some(forms) = &self.forms else { return found };
        let _ = forms.each(bytes, |mut place| {
            // They come by their ends: a later one may begin before earlier ones.
            while let Some(last) = found.pop_if(|last| last.end >= place.start) {
                place.start = place.start.min(last.start);
            }
            found.push(place);
            ControlFlow::Continue(())
        });
        let whole = found.len();
        let _ = self.each_broken(forms, bytes, |place| {
            match found.last_mut().filter(|last| (last.start..=last.end).contains(&place.start)) {
                Some(last) => last.end = last.end.max(place.end),
                None => found.push(place),
            }
            ControlFlow::Continue(())
        });
        if found.len() > whole { together(found) } else { found }
    }

    /// Names the places of forms that go over the end of a line.
    fn each_broken(
        &self,
        forms: &Search,
        bytes: &[u8],
        mut met: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        broken::each(bytes, (self.shortest, self.longest), |joined| {
            forms.each(joined.text(), |place| match joined.broken(place) {
                Some(place) if place.len() <= self.longest() => met(place),
                Some(_) | None => ControlFlow::Continue(()),
            })
        })
    }

    /// Returns the length of the longest form with all that may break it: what a stream must see before it can be sure.
    fn longest(&self) -> usize {
        2 * self.longest + BREAK
    }
}

/// Makes one of places that touch or overlap, and puts them in order.
fn together(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_by_key(|place| place.start);
    let mut found: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match found.last_mut().filter(|last| last.end >= place.start) {
            Some(last) => last.end = last.end.max(place.end),
            None => found.push(place),
        }
    }
    found
}

#[cfg(test)]
mod tests;
