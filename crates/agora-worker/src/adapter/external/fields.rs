//! The fields of an answer, taken out one by one: what is wrong is named by its place, and never quoted.

use serde_json::{Map, Value};

/// A thousand thousand million: nobody uses that much in a dispatch, and sums of it over a thread do not overflow.
const MOST: u64 = 1_000_000_000_000;

/// Says which field breaks the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    #[error("`{field}` is not {expected}")]
    Field { field: String, expected: String },
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("{0} is no field of an answer")]
    Unknown(String),
}

/// The fields of one object. `null` is the same as leaving a field out.
pub(super) struct Fields {
    /// How the object is reached, such as `usage.`; empty at the top.
    at: String,
    fields: Map<String, Value>,
}

impl Fields {
    pub(super) fn new(fields: Map<String, Value>) -> Self {
        Self { at: String::new(), fields }
    }

    fn wrong(&self, field: &str, expected: impl Into<String>) -> Wrong {
        Wrong::Field { field: format!("{}{field}", self.at), expected: expected.into() }
    }

    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<Option<bool>, Wrong> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.wrong(field, "true or false")),
        }
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<Option<String>, Wrong> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(field, "a text")),
        }
    }

    /// Takes a text that is a name of something.
    pub(super) fn short(&mut self, field: &'static str, most: usize) -> Result<Option<String>, Wrong> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) if (1..=most).contains(&text.len()) => Ok(Some(text)),
            Some(_) => Err(self.wrong(field, format!("a text of 1 to {most} bytes"))),
        }
    }

    /// Takes a text that means something: as whatever `parse` makes of it.
    pub(super) fn parsed<T>(
        &mut self,
        field: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Wrong> {
        match self.take(field) {
            None => Ok(None),
            Some(value) => match value.as_str().and_then(parse) {
                Some(parsed) => Ok(Some(parsed)),
                None => Err(self.wrong(field, expected)),
            },
        }
    }

    /// Takes a count; one that was left out is zero.
    pub(super) fn count(&mut self, field: &'static str) -> Result<u64, Wrong> {
        match self.take(field) {
            None => Ok(0),
            Some(value) => value
                .as_u64()
                .filter(|count| *count <= MOST)
                .ok_or_else(|| self.wrong(field, format!("a whole number from 0 to {MOST}"))),
        }
    }

    /// Takes a price. A negative one would add to a budget.
    pub(super) fn price(&mut self, field: &'static str) -> Result<Option<f64>, Wrong> {
        match self.take(field) {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .filter(|price| (0.0..=1e9).contains(price))
                .map(Some)
                .ok_or_else(|| self.wrong(field, "a number from 0 to 1000000000")),
        }
    }

    pub(super) fn object(&mut self, field: &'static str) -> Result<Option<Self>, Wrong> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self { at: format!("{}{field}.", self.at), fields })),
            Some(_) => Err(self.wrong(field, "an object")),
        }
    }

    pub(super) fn objects(&mut self, field: &'static str, most: usize) -> Result<Vec<Self>, Wrong> {
        let wrong = self.wrong(field, format!("a list of at most {most} objects"));
        let values = match self.take(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) if values.len() <= most => values,
            Some(_) => return Err(wrong),
        };
        let object = |(place, value)| match value {
            Value::Object(fields) => Ok(Self { at: format!("{}{field}[{place}].", self.at), fields }),
            _ => Err(wrong.clone()),
        };
        values.into_iter().enumerate().map(object).collect()
    }

    /// Sees that nothing is left: a field that is misspelt would be lost in silence.
    pub(super) fn end(self) -> Result<(), Wrong> {
        let Some(field) = self.fields.keys().next() else { return Ok(()) };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let name = match field.len() {
            1..=40 if field.bytes().all(is_plain) => format!("`{}{field}`", self.at),
            _ => "one of its keys".to_owned(),
        };
        Err(Wrong::Unknown(name))
    }
}
