//! Questions: what one pause asks, in one or more items.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Reply;
use crate::canonical::{self, CanonicalError};
use crate::hash::ContentHash;
use crate::spent::BudgetPart;
use crate::text::checked_text;

checked_text!(
    /// The id of an item: the asker's, else `q1…qn`. Answers are keyed by it.
    ItemId, ItemIdError, check_item_id
);

/// Says why a text cannot be an item's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an item's id has 1 to 128 characters, none of them a control character")]
pub struct ItemIdError;

fn check_item_id(text: &str) -> Result<(), ItemIdError> {
    let fits = !text.trim().is_empty() && text.len() <= 128 && !text.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(ItemIdError) }
}

/// One thing to choose, with what choosing it implies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Why a reply does not answer an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// There is nothing in it, or nothing is chosen.
    Blank,
    /// It is none of the options.
    NotAnOption,
    /// It names one of them twice.
    Twice,
    /// It is a list, where one reply is wanted.
    NotOne,
}

/// What may be replied to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choosing {
    /// No options were given: any text.
    FreeText,
    /// One of the options.
    One,
    /// One or more of the options.
    Several,
}

/// An item as the asker writes it, before it is checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawItem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ItemId>,
    pub question: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Choice>,
    pub multi_select: bool,
    pub allow_other: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Reply>,
    pub human: bool,
}

/// One item of a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "RawItem")]
pub struct Item {
    id: ItemId,
    raw: RawItem,
}

/// Says why an item cannot be asked. Quotes nothing but the item's place: the text is the agent's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error("there is no item in it")]
    Empty,
    #[error("item {0} has a blank question")]
    Blank(usize),
    #[error("item {0} has an option with a blank label")]
    BlankOption(usize),
    #[error("item {0} has two options with one label")]
    OptionTwice(usize),
    #[error("item {0} has the id of an earlier one")]
    IdTwice(usize),
    #[error("item {0} wants several of no options")]
    NothingToSelect(usize),
    #[error("item {0} has a default that is no valid answer to it")]
    Default(usize),
}

impl Item {
    pub fn id(&self) -> &ItemId {
        &self.id
    }

    pub fn question(&self) -> &str {
        &self.raw.question
    }

    pub fn header(&self) -> Option<&str> {
        self.raw.header.as_deref()
    }

    pub fn options(&self) -> &[Choice] {
        &self.raw.options
    }

    pub fn default_reply(&self) -> Option<&Reply> {
        self.raw.default.as_ref()
    }

    /// Tells whether a reply need not be one of the options.
    pub fn allows_other(&self) -> bool {
        self.raw.allow_other
    }

    /// Tells whether only a person may answer.
    pub fn is_for_humans(&self) -> bool {
        self.raw.human
    }

    /// Tells what kind of reply is wanted.
    pub fn choosing(&self) -> Choosing {
        match (self.raw.options.is_empty(), self.raw.multi_select) {
            (true, _) => Choosing::FreeText,
            (false, false) => Choosing::One,
            (false, true) => Choosing::Several,
        }
    }

    /// Tells whether a reply answers this item.
    pub fn accepts(&self, reply: &Reply) -> bool {
        self.check(reply).is_ok()
    }

    /// Checks that a reply answers this item. Options constrain it unless others are allowed.
    pub fn check(&self, reply: &Reply) -> Result<(), Unfit> {
        match (self.choosing(), reply) {
            (_, Reply::One(text)) => self.check_texts(std::slice::from_ref(text)),
            (Choosing::Several, Reply::Many(texts)) => self.check_texts(texts),
            (Choosing::FreeText | Choosing::One, Reply::Many(_)) => Err(Unfit::NotOne),
        }
    }

    fn check_texts(&self, texts: &[String]) -> Result<(), Unfit> {
        if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty()) {
            return Err(Unfit::Blank);
        }
        let free = self.raw.allow_other || self.raw.options.is_empty();
        let labels = labels(&self.raw);
        if !free && texts.iter().any(|text| !labels.contains(text.as_str())) {
            return Err(Unfit::NotAnOption);
        }
        let mut seen = HashSet::new();
        if texts.iter().all(|text| seen.insert(text)) { Ok(()) } else { Err(Unfit::Twice) }
    }
}

/// Returns the labels of an item's options, to look one up: there may be many.
fn labels(item: &RawItem) -> HashSet<&str> {
    item.options.iter().map(|choice| choice.label.as_str()).collect()
}

impl From<Item> for RawItem {
    fn from(item: Item) -> Self {
        Self { id: Some(item.id), ..item.raw }
    }
}

/// A question as it is stored, before its items are checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawQuestion {
    pub questions: Vec<RawItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// What the agent had worked out, handed back to it untouched.
    pub partial_state: Value,
    /// The part of the budget that is used up: agora's own question, which no agent can ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<BudgetPart>,
}

/// What one pause asks. Every item can be answered, and no two share an id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawQuestion", into = "RawQuestion")]
pub struct Question {
    items: Vec<Item>,
    context: Option<String>,
    partial_state: Value,
    spent: Option<BudgetPart>,
}

impl Question {
    pub fn new(raw: RawQuestion) -> Result<Self, QuestionError> {
        let mut items: Vec<Item> = Vec::with_capacity(raw.questions.len());
        let mut ids = HashSet::new();
        for (place, item) in (1..).zip(&raw.questions) {
            if item.id.as_ref().is_some_and(|id| !ids.insert(id.clone())) {
                return Err(QuestionError::IdTwice(place));
            }
        }
        for (place, mut item) in (1..).zip(raw.questions) {
            // Taken out, so that an id that was given and the same one that was made are one item.
            let id = item.id.take().unwrap_or_else(|| made_id(place, &mut ids));
            items.push(check_item(place, id, item)?);
        }
        if items.is_empty() {
            return Err(QuestionError::Empty);
        }
        let RawQuestion { context, partial_state, spent, .. } = raw;
        Ok(Self { items, context, partial_state, spent })
    }

    pub fn items(&self) -> &[Item] {
        &self.items
    }

    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    pub fn partial_state(&self) -> &Value {
        &self.partial_state
    }

    /// Returns the part of the thread's budget that is used up, where this is agora's own question about that.
    pub fn spent(&self) -> Option<BudgetPart> {
        self.spent
    }

    /// Returns the hash that an answer is given for. The partial state is in it by its text: it is the agent's, and may
    /// hold numbers that have no canonical form.
    pub fn hash(&self) -> Result<ContentHash, CanonicalError> {
        let state = ContentHash::of(self.partial_state.to_string().as_bytes());
        let mut hashed = json!({"questions": self.items, "context": self.context, "partialState": state});
        if let Some(spent) = self.spent {
            hashed["spent"] = json!(spent);
        }
        canonical::hash(&hashed)
    }
}

/// Tells whether there is nothing to see in a text: spaces, control characters, and letters that have no shape.
fn is_blank(text: &str) -> bool {
    let has_no_shape = |letter: char| {
        matches!(letter, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
    };
    text.chars().all(|letter| letter.is_whitespace() || letter.is_control() || has_no_shape(letter))
}

/// Makes the id of an item that its asker gave none: by its place, else the next that no item has.
fn made_id(place: usize, taken: &mut HashSet<ItemId>) -> ItemId {
    let mut number = place;
    loop {
        let id = ItemId(format!("q{number}"));
        if taken.insert(id.clone()) {
            return id;
        }
        number += 1;
    }
}

fn check_item(place: usize, id: ItemId, raw: RawItem) -> Result<Item, QuestionError> {
    if is_blank(&raw.question) {
        return Err(QuestionError::Blank(place));
    }
    if raw.options.iter().any(|choice| is_blank(&choice.label)) {
        return Err(QuestionError::BlankOption(place));
    }
    if labels(&raw).len() < raw.options.len() {
        return Err(QuestionError::OptionTwice(place));
    }
    if raw.multi_select && raw.options.is_empty() {
        return Err(QuestionError::NothingToSelect(place));
    }
    let item = Item { id, raw };
    match item.default_reply() {
        Some(reply) if !item.accepts(reply) => Err(QuestionError::Default(place)),
        Some(_) | None => Ok(item),
    }
}

impl From<Question> for RawQuestion {
    fn from(question: Question) -> Self {
        Self {
            questions: question.items.into_iter().map(RawItem::from).collect(),
            context: question.context,
            partial_state: question.partial_state,
            spent: question.spent,
        }
    }
}

impl TryFrom<RawQuestion> for Question {
    type Error = QuestionError;

    fn try_from(raw: RawQuestion) -> Result<Self, QuestionError> {
        Self::new(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(items: Value) -> Result<Question, String> {
        serde_json::from_value(json!({"questions": items})).map_err(|error| error.to_string())
    }

    #[test]
    fn an_id_that_is_made_is_none_that_was_given() {
        let ids = |items: Value| -> Vec<String> {
            question(items).unwrap().items().iter().map(|item| item.id().to_string()).collect()
        };
        assert_eq!(
            ids(json!([{"question": "a"}, {"id": "db", "question": "b"}, {"question": "c"}])),
            ["q1", "db", "q3"]
        );
        assert_eq!(
            ids(json!([{"id": "q2", "question": "a"}, {"question": "b"}, {"question": "c"}])),
            ["q2", "q3", "q4"]
        );
        assert_eq!(ids(json!([{"question": "a"}, {"id": "q1", "question": "b"}])), ["q2", "q1"]);
    }

    #[test]
    fn nothing_of_a_question_is_lost_on_the_way_through_storage() {
        let asked = json!({
            "questions": [
                {"id": "db", "question": "Which?", "header": "Database", "multiSelect": true, "allowOther": true,
                 "human": true, "default": ["sqlite"],
                 "options": [{"label": "sqlite", "description": "embedded"}, {"label": "postgres"}]},
                {"id": "q2", "question": "Why?", "multiSelect": false, "allowOther": false, "human": false}
            ],
            "context": "Both work.", "partialState": {"ruled_out": ["mysql"]}
        });
        let question: Question = serde_json::from_value(asked.clone()).unwrap();
        assert_eq!(serde_json::to_value(&question).unwrap(), asked);
    }

    #[test]
    fn everything_of_a_question_is_in_its_hash_and_any_state_has_one() {
        let question = |text: &str, state: Value| -> Question {
            serde_json::from_value(json!({"questions": [{"question": text}], "partialState": state})).unwrap()
        };
        let hash = |text: &str, state: Value| question(text, state).hash().unwrap();
        let nanos = 1_763_233_200_000_000_001_u64;
        assert_ne!(
            hash("a", json!({"at": nanos})),
            hash("a", json!({"at": nanos + 1})),
            "beyond what a double keeps"
        );
        assert_ne!(hash("a", json!(null)), hash("b", json!(null)));
        assert_eq!(hash("a", json!({"x": 1, "y": 2})), hash("a", json!({"y": 2, "x": 1})));
        let kept: Question =
            serde_json::from_value(serde_json::to_value(question("a", json!(nanos))).unwrap()).unwrap();
        assert_eq!(kept.partial_state(), &json!(nanos));
    }

    #[test]
    fn a_question_that_cannot_be_answered_is_refused() {
        let cases = [
            (json!([]), "no item"),
            (json!([{"question": " "}]), "item 1 has a blank question"),
            (json!([{"question": "\u{200b}\u{2060} \u{202e}\0"}]), "item 1 has a blank question"),
            (json!([{"question": "a", "options": [{"label": "\u{3164}"}]}]), "blank label"),
            (
                json!([{"question": "a", "id": "q1"}, {"question": "b", "id": "q1"}]),
                "item 2 has the id of an earlier one",
            ),
            (json!([{"question": "a", "options": [{"label": ""}]}]), "blank label"),
            (
                json!([{"question": "a", "options": [{"label": "x"}, {"label": "x"}]}]),
                "two options with one label",
            ),
            (json!([{"question": "a", "multiSelect": true}]), "several of no options"),
            (json!([{"question": "a", "options": [{"label": "x"}], "default": "y"}]), "default"),
            (json!([{"question": "a", "options": [{"label": "x"}], "default": ["x"]}]), "default"),
        ];
        for (items, expected) in cases {
            let error = question(items).expect_err(expected);
            assert!(error.contains(expected), "{error} should say {expected}");
        }
    }

    #[test]
    fn options_constrain_unless_others_are_allowed() {
        let accepts = |item: Value, reply: Value| {
            question(json!([item])).unwrap().items()[0].accepts(&serde_json::from_value(reply).unwrap())
        };
        let options = json!([{"label": "A"}, {"label": "B"}]);
        let one = json!({"question": "?", "options": options});
        let other = json!({"question": "?", "options": options, "allowOther": true});
        let many = json!({"question": "?", "options": options, "multiSelect": true});
        let free = json!({"question": "?"});
        assert!(
            accepts(one.clone(), json!("A"))
                && !accepts(one.clone(), json!("C"))
                && !accepts(one, json!(["A"]))
        );
        assert!(accepts(other.clone(), json!("C")) && !accepts(other, json!(" ")));
        assert!(accepts(many.clone(), json!(["B", "A"])) && accepts(many.clone(), json!("A")));
        assert!(!accepts(many.clone(), json!(["A", "A"])) && !accepts(many, json!([])));
        assert!(accepts(free.clone(), json!("anything")) && !accepts(free, json!("")));
    }
}
