//! A question as a form that a client shows to a person, and what was filled in as an answer.

use agora_core::QuestionId;
use agora_core::answer::{Given, Reply};
use agora_core::question::{Choosing, Item, Question};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};

use super::bounds::{MOST_BYTES, clipped};

/// What a form takes of the wire. Beside it there are the state of the call, what was wrong before, and the protocol's frame.
const FORM_BYTES: usize = MOST_BYTES - 4 * 1024;
/// How much of an agent's words is shown in a form, step by step until it fits: a dialogue is not a page.
const STEPS: [Extent; 4] = [
    Extent { words: 4 * 1024, meaning: Some(4 * 1024) },
    Extent { words: 4 * 1024, meaning: Some(256) },
    Extent { words: 1024, meaning: Some(64) },
    Extent { words: 256, meaning: None },
];
/// What is said at most of what was filled in before and not taken.
const PROBLEM_BYTES: usize = 512;
/// Where a person finds what a form does not show.
const THE_REST: &str = "(`agora inbox` shows all of it)";
/// What of a question stands over its field, where it has no header.
const TITLE_BYTES: usize = 80;
/// What of a question stands beside its field: the message has more of it.
const BESIDE_BYTES: usize = 512;

/// How much is shown.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Of a question, and of its context.
    words: usize,
    /// Of what one option means. `None`: nothing, and its label stands with its field alone.
    meaning: Option<usize>,
}

/// What a person made of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filled {
    Answer(Given),
    /// They said no: nobody will answer.
    Declined,
    /// They closed it: not now.
    Dismissed,
    /// What came back is no form's.
    Nonsense,
}

/// Makes the form of a question, with a field for each item. `problem` says what was wrong with what was filled in before. `None`: what
/// there is to choose from is too much for a form.
pub(crate) fn form(
    id: &QuestionId,
    subagent: &str,
    question: &Question,
    chooses_several: bool,
    problem: Option<&str>,
) -> Option<ElicitRequestParams> {
    let (message, schema) = STEPS.into_iter().find_map(|extent| {
        let (message, schema) =
            (message(id, subagent, question, extent), schema(question, chooses_several, extent));
        let bytes = json!([message, schema]).to_string().len();
        (bytes <= FORM_BYTES).then_some((message, schema))
    })?;
    let problem = problem.map(|problem| clipped(problem, PROBLEM_BYTES, None));
    let problem = problem.map(|problem| format!("That was not taken: {problem}.\n\n")).unwrap_or_default();
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: problem + &message,
        requested_schema: ElicitationSchema::from_json_schema(schema).ok()?,
    })
}

fn schema(question: &Question, chooses_several: bool, extent: Extent) -> Map<String, Value> {
    let items = question.items();
    let fields = items.iter().map(|item| (item.id().to_string(), field(item, chooses_several, extent)));
    let required: Vec<Value> = items.iter().map(|item| json!(item.id())).collect();
    let properties = Value::Object(fields.collect());
    let parts = [("type", json!("object")), ("properties", properties), ("required", json!(required))];
    parts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Says all that a person needs to decide: an option's description has no place in the fields of every client.
fn message(id: &QuestionId, subagent: &str, question: &Question, extent: Extent) -> String {
    let mut lines = vec![format!("The agent `{subagent}` asks ({id}):")];
    lines.extend(question.context().map(|context| shown(context, extent.words)));
    for item in question.items() {
        lines.push(String::new());
        lines.push(shown(item.question(), extent.words));
        let mut is_cut = false;
        for choice in item.options() {
            let meaning = choice.description.as_deref().unwrap_or_default();
            let end = meaning.floor_char_boundary(extent.meaning.unwrap_or_default());
            is_cut |= end < meaning.len();
            let said = match (&meaning[..end], end < meaning.len()) {
                ("", _) => String::new(),
                (said, false) => format!(": {said}"),
                (said, true) => format!(": {said}…"),
            };
            lines.extend(extent.meaning.map(|_| format!("- {}{said}", choice.label)));
        }
        lines.extend(is_cut.then(|| THE_REST.to_owned()));
    }
    lines.push("\nTo decline ends the agent's work. To close this leaves the question open.".to_owned());
    lines.join("\n")
}

/// Cuts words for a person, and says where they find all of them.
fn shown(text: &str, most: usize) -> String {
    let cut = clipped(text, most, None);
    if cut == text { cut } else { format!("{cut} {THE_REST}") }
}

/// Returns what stands over a field. An item's id may be nothing but its place, so where there is no header its words do.
fn title(item: &Item) -> String {
    let words = item.header().unwrap_or_else(|| item.question());
    match words.floor_char_boundary(TITLE_BYTES) {
        end if end == words.len() => words.to_owned(),
        end => format!("{}…", &words[..end]),
    }
}

fn field(item: &Item, chooses_several: bool, extent: Extent) -> Value {
    let title = title(item);
    let asked = clipped(item.question(), BESIDE_BYTES.min(extent.words), None);
    let labels: Vec<&str> = item.options().iter().map(|choice| choice.label.as_str()).collect();
    let text = |hint: String| json!({"type": "string", "title": title, "description": hint, "minLength": 1});
    let list = labels.join(", ");
    let mut field = match (item.choosing(), item.allows_other()) {
        (Choosing::FreeText, _) => text(asked),
        (Choosing::One, false) => {
            json!({"type": "string", "title": title, "description": asked, "enum": labels})
        }
        (Choosing::One, true) => text(format!("One of: {list}; or something else")),
        (Choosing::Several, false) if chooses_several => json!({
            "type": "array", "title": title, "description": asked, "minItems": 1,
            "items": {"type": "string", "enum": labels},
        }),
        (Choosing::Several, false) => text(format!("One or more of: {list}; with commas between them")),
        (Choosing::Several, true) => text(format!("Any of: {list}; or others; with commas between them")),
    };
    match (item.default_reply(), field["type"] == "array") {
        (Some(Reply::One(text)), false) => field["default"] = json!(text),
        (Some(Reply::Many(texts)), true) => field["default"] = json!(texts),
        _ => {}
    }
    field
}

/// Reads what a client says a person did.
pub(crate) fn filled(result: &ElicitResult) -> Filled {
    match (&result.action, &result.content) {
        (ElicitationAction::Accept, Some(Value::Object(content))) => {
            Filled::Answer(Given::ByItem(content.clone()))
        }
        (ElicitationAction::Decline, _) => Filled::Declined,
        (ElicitationAction::Cancel, _) => Filled::Dismissed,
        _ => Filled::Nonsense,
    }
}

/// Reads the same where it comes as plain JSON.
pub(crate) fn filled_json(value: &Value) -> Filled {
    serde_json::from_value(value.clone()).map_or(Filled::Nonsense, |result| filled(&result))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(value: Value) -> Question {
        serde_json::from_value(value).unwrap()
    }

    fn schema(question: &Question, chooses_several: bool) -> Value {
        let id = "q_1".parse().unwrap();
        let form = form(&id, "planner", question, chooses_several, None).unwrap();
        serde_json::to_value(&form).unwrap()
    }

    #[test]
    fn each_item_is_a_field_that_takes_what_the_item_takes() {
        let asked = question(json!({"context": "Both are there.", "questions": [
            {"id": "db", "question": "Which database?", "header": "Database", "options": [
                {"label": "sqlite", "description": "one file"}, {"label": "postgres"}], "default": "sqlite"},
            {"id": "parts", "question": "Which parts?", "options": [{"label": "api"}, {"label": "ui"}], "multiSelect": true},
            {"id": "why", "question": "Why?"},
            {"id": "other", "question": "How?", "options": [{"label": "so"}], "allowOther": true}
        ]}));
        let form = schema(&asked, true);
        assert_eq!(form["mode"], "form");
        let fields = &form["requestedSchema"]["properties"];
        assert_eq!(fields["db"]["enum"], json!(["sqlite", "postgres"]));
        assert_eq!(fields["db"]["default"], "sqlite");
        assert_eq!(fields["db"]["title"], "Database");
        assert_eq!(fields["why"]["title"], "Why?");
        assert_eq!(fields["parts"]["items"]["enum"], json!(["api", "ui"]));
        assert_eq!(fields["why"]["type"], "string");
        assert!(fields["other"].get("enum").is_none());
        assert_eq!(form["requestedSchema"]["required"], json!(["db", "parts", "why", "other"]));
        let message = form["message"].as_str().unwrap();
        for said in ["planner", "q_1", "Both are there.", "- sqlite: one file", "- postgres"] {
            assert!(message.contains(said), "{message}");
        }
        // An older client has no lists.
        assert_eq!(schema(&asked, false)["requestedSchema"]["properties"]["parts"]["type"], "string");
    }

    #[test]
    fn a_person_is_told_where_the_rest_of_long_words_is() {
        let long = "word ".repeat(4000);
        let form = schema(&question(json!({"context": long, "questions": [{"question": long}]})), true);
        assert!(form.to_string().len() < 12_000);
        let message = form["message"].as_str().unwrap();
        assert_eq!(message.matches("more bytes] (`agora inbox` shows all of it)").count(), 2, "{message}");
        assert!(!message.contains("resource"), "{message}");
    }

    /// Asks as many things, each with as many options.
    fn many(items: usize, options: usize, description: &str) -> Question {
        let option = |at| json!({"label": format!("option number {at:04}"), "description": description});
        let options: Vec<Value> = (0..options).map(option).collect();
        question(json!({"questions": vec![json!({"question": "Which?", "options": options}); items]}))
    }

    #[test]
    fn a_form_is_in_bounds_and_has_every_option() {
        let long = "what it means ".repeat(6);
        for (items, options) in [(1, 1), (1, 300), (5, 200), (100, 2)] {
            let form = schema(&many(items, options, &long), true);
            assert!(
                form.to_string().len() <= FORM_BYTES + 64,
                "{items}, {options}: {} bytes",
                form.to_string().len()
            );
            let fields = form["requestedSchema"]["properties"].as_object().unwrap();
            let shown = fields.values().filter(|field| field["enum"].as_array().unwrap().len() == options);
            assert_eq!(shown.count(), items);
            let message = form["message"].as_str().unwrap();
            assert_eq!(message.contains(THE_REST), items * options > 1, "{message}");
        }
    }

    #[test]
    fn what_is_too_much_for_a_form_is_none() {
        let id = "q_1".parse().unwrap();
        let form = |question: &Question| form(&id, "planner", question, true, None);
        assert!(form(&many(2, 1000, "")).is_none());
        let problem = "no ".repeat(9000);
        let again = super::form(&id, "planner", &many(5, 200, "so"), true, Some(&problem)).unwrap();
        assert!(serde_json::to_string(&again).unwrap().len() <= MOST_BYTES);
    }

    #[test]
    fn what_is_filled_in_answers_the_question() {
        let asked = question(json!({"questions": [
            {"id": "db", "question": "Which?", "options": [{"label": "sqlite"}, {"label": "postgres"}]},
            {"id": "parts", "question": "Which?", "options": [{"label": "api"}, {"label": "ui"}], "multiSelect": true}]}));
        let accept = json!({"action": "accept", "content": {"db": "sqlite", "parts": ["api", "ui"]}});
        let Filled::Answer(given) = filled_json(&accept) else { panic!() };
        let replies = given.understood(&asked).unwrap();
        assert_eq!(serde_json::to_value(replies).unwrap(), json!({"db": "sqlite", "parts": ["api", "ui"]}));
        let Filled::Answer(given) =
            filled_json(&json!({"action": "accept", "content": {"db": "sqlite", "parts": "api, ui"}}))
        else {
            panic!()
        };
        assert!(given.understood(&asked).is_ok());
    }

    #[test]
    fn to_decline_is_not_to_close() {
        assert_eq!(filled_json(&json!({"action": "decline"})), Filled::Declined);
        assert_eq!(filled_json(&json!({"action": "cancel"})), Filled::Dismissed);
        for nonsense in
            [json!(12345), json!(null), json!({}), json!({"action": "accept"}), json!({"action": "yes"})]
        {
            assert_eq!(filled_json(&nonsense), Filled::Nonsense, "{nonsense}");
        }
    }
}
