//! What somebody gave in answer to a question, understood as replies: an option by its label or its number, several with commas
//! between them, or any text where no options constrain it. Nothing is guessed: what fits two options fits none, and words of
//! somebody's own that have commas in them are one reply.

use serde_json::{Map, Value};

use super::{AnswerError, Replies, Reply, check};
use crate::question::{Choosing, Item, ItemId, Question};

/// What was given, before it is understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// Some words, for a question of one item.
    Text(String),
    /// A text, a number or a list of these for each item, by the item's id.
    ByItem(Map<String, Value>),
}

impl From<&str> for Given {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Given {
    /// Returns the replies that were meant, if they answer the question.
    pub fn understood(&self, question: &Question) -> Result<Replies, AnswerError> {
        let replies = match (self, question.items()) {
            (Self::Text(text), [item]) => Replies::from([(item.id().clone(), words(item, text)?)]),
            (Self::Text(_), items) => {
                return Err(AnswerError::Several(items.iter().map(|item| item.id().clone()).collect()));
            }
            (Self::ByItem(values), items) => by_item(items, values)?,
        };
        check(question, &replies)?;
        Ok(replies)
    }
}

fn by_item(items: &[Item], values: &Map<String, Value>) -> Result<Replies, AnswerError> {
    let mut replies = Replies::new();
    for (key, value) in values {
        let id: ItemId = key.parse().map_err(|_| AnswerError::Unnamed)?;
        let item = items.iter().find(|item| *item.id() == id);
        let item = item.ok_or_else(|| AnswerError::Unasked(id.clone()))?;
        let reply = match value {
            Value::String(text) => words(item, text)?,
            Value::Number(number) => words(item, &number.to_string())?,
            Value::Array(values) => {
                Reply::Many(values.iter().map(|value| one_of(item, value)).collect::<Result<_, _>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => return Err(AnswerError::NotText(id)),
        };
        replies.insert(id, reply);
    }
    Ok(replies)
}

fn one_of(item: &Item, value: &Value) -> Result<String, AnswerError> {
    match value {
        Value::String(text) => one(item, text),
        Value::Number(number) => one(item, &number.to_string()),
        _ => Err(AnswerError::NotText(item.id().clone())),
    }
}

/// Understands one text as the reply to an item.
fn words(item: &Item, text: &str) -> Result<Reply, AnswerError> {
    match item.choosing() {
        Choosing::FreeText if text.trim().is_empty() => Err(AnswerError::Blank(item.id().clone())),
        // To the letter: it may be code.
        Choosing::FreeText => Ok(Reply::One(text.to_owned())),
        Choosing::One => one(item, text).map(Reply::One),
        Choosing::Several => match listed(item, text) {
            Some(several) => Ok(Reply::Many(several)),
            None => one(item, text).map(|only| Reply::Many(vec![only])),
        },
    }
}

/// Returns the options that a text lists. `None`: it does not list options and nothing else.
fn listed(item: &Item, text: &str) -> Option<Vec<String>> {
    let is_one = option(item, text.trim()).is_some();
    // As many commas as a text can hold are not looked up among as many options as there may be.
    let parts = text.split(',').count();
    if is_one || parts < 2 || parts > item.options().len() + 1 {
        return None;
    }
    text.split(',').map(|part| option(item, part.trim())).collect()
}

/// Returns the one thing that a text means: an option, else the text itself where others are allowed.
fn one(item: &Item, text: &str) -> Result<String, AnswerError> {
    let text = text.trim();
    match option(item, text) {
        Some(label) => Ok(label),
        None if text.is_empty() => Err(AnswerError::Blank(item.id().clone())),
        None if item.allows_other() => Ok(text.to_owned()),
        None => Err(AnswerError::NotAccepted(item.id().clone())),
    }
}

/// Returns the option that a text means: by its label, by its number, by its label in other letters.
fn option(item: &Item, text: &str) -> Option<String> {
    let numbered = || {
        // `+2` is an amount, and not the second option.
        let number: usize = text.parse().ok().filter(|_| !text.starts_with('+'))?;
        Some(item.options().get(number.checked_sub(1)?)?.label.clone())
    };
    label(item, text).or_else(numbered).or_else(|| alike(item, text))
}

fn label(item: &Item, text: &str) -> Option<String> {
    item.options().iter().find(|choice| choice.label == text).map(|choice| choice.label.clone())
}

fn alike(item: &Item, text: &str) -> Option<String> {
    let folded = text.to_lowercase();
    let mut found = item.options().iter().filter(|choice| choice.label.trim().to_lowercase() == folded);
    let first = found.next()?;
    found.next().is_none().then(|| first.label.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(item: Value) -> Question {
        serde_json::from_value(json!({"questions": [item]})).unwrap()
    }

    fn said(question: &Question, text: &str) -> Result<Value, AnswerError> {
        let replies = Given::Text(text.to_owned()).understood(question)?;
        Ok(serde_json::to_value(&replies).unwrap()["q1"].clone())
    }

    fn options(labels: &[&str]) -> Vec<Value> {
        labels.iter().map(|label| json!({"label": label})).collect()
    }

    #[test]
    fn one_option_is_meant_by_its_label_its_number_or_its_label_in_other_letters() {
        let which = question(json!({"question": "Which?", "options": options(&["SQLite", "Postgres", "2"])}));
        assert_eq!(said(&which, "SQLite"), Ok(json!("SQLite")));
        assert_eq!(said(&which, " postgres "), Ok(json!("Postgres")));
        assert_eq!(said(&which, "1"), Ok(json!("SQLite")));
        // A label goes before a number.
        assert_eq!(said(&which, "2"), Ok(json!("2")));
        assert_eq!(said(&which, " "), Err(AnswerError::Blank("q1".parse().unwrap())));
        for wrong in ["0", "4", "-1", "SQL", "SQLite, Postgres"] {
            assert_eq!(said(&which, wrong), Err(AnswerError::NotAccepted("q1".parse().unwrap())), "{wrong}");
        }
    }

    #[test]
    fn what_fits_two_options_fits_none() {
        let which = question(json!({"question": "Which?", "options": options(&["Main", "MAIN", "x"])}));
        assert_eq!(said(&which, "MAIN"), Ok(json!("MAIN")));
        assert!(said(&which, "main").is_err());
    }

    #[test]
    fn several_are_separated_by_commas_and_none_twice() {
        let which =
            json!({"question": "Which?", "options": options(&["a", "b", "c, d"]), "multiSelect": true});
        let which = question(which);
        assert_eq!(said(&which, "b"), Ok(json!(["b"])));
        assert_eq!(said(&which, "2, a"), Ok(json!(["b", "a"])));
        assert_eq!(said(&which, "c, d"), Ok(json!(["c, d"])));
        assert!(said(&which, "a, 1").is_err());
        assert!(said(&which, "a,").is_err());
        assert!(said(&which, &",".repeat(1 << 20)).is_err());
    }

    #[test]
    fn a_comma_in_words_of_somebodys_own_does_not_make_two_replies() {
        let which = json!({"question": "Which?", "options": options(&["a", "b"]), "multiSelect": true, "allowOther": true});
        let which = question(which);
        assert_eq!(said(&which, "neither, because it rains"), Ok(json!(["neither, because it rains"])));
        assert_eq!(said(&which, "a, but only on Sundays"), Ok(json!(["a, but only on Sundays"])));
        assert_eq!(said(&which, "2, a"), Ok(json!(["b", "a"])));
        let Value::Object(both) = json!({"q1": ["a", "something, else"]}) else { panic!("an object") };
        let both = Given::ByItem(both).understood(&which).unwrap();
        assert_eq!(serde_json::to_value(both).unwrap()["q1"], json!(["a", "something, else"]));
    }

    #[test]
    fn text_is_free_where_nothing_constrains_it() {
        let why = question(json!({"question": "Why?"}));
        assert_eq!(said(&why, "  because\n"), Ok(json!("  because\n")));
        assert!(said(&why, " \n").is_err());
        let other = question(json!({"question": "Which?", "options": options(&["a"]), "allowOther": true}));
        assert_eq!(said(&other, "neither"), Ok(json!("neither")));
        assert_eq!(said(&other, "1"), Ok(json!("a")));
    }

    #[test]
    fn several_items_are_answered_by_their_ids_in_one_submission() {
        let both: Question = serde_json::from_value(json!({"questions": [
            {"id": "db", "question": "Which?", "options": options(&["a", "b"])},
            {"question": "Which of these?", "options": options(&["x", "y"]), "multiSelect": true}
        ]}))
        .unwrap();
        let given = |value: Value| {
            let Value::Object(values) = value else { panic!("an object") };
            Given::ByItem(values).understood(&both).map(|replies| serde_json::to_value(replies).unwrap())
        };
        assert_eq!(given(json!({"db": 2, "q2": ["y", 1]})), Ok(json!({"db": "b", "q2": ["y", "x"]})));
        assert_eq!(given(json!({"db": "A"})), Err(AnswerError::Missing("q2".parse().unwrap())));
        assert_eq!(given(json!({"x": "A"})), Err(AnswerError::Unasked("x".parse().unwrap())));
        assert_eq!(given(json!({"db": true})), Err(AnswerError::NotText("db".parse().unwrap())));
        assert!(
            matches!(Given::Text("a".into()).understood(&both), Err(AnswerError::Several(ids)) if ids.len() == 2)
        );
    }
}
