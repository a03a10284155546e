//! A question as a form that a client shows to a person, and what was filled in as an answer.

use agora_core::QuestionId;
use agora_core::answer::{Given, Reply};
use agora_core::question::{Choosing, Item, Question};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};

use super::bounds::clipped;

/// What of an agent's words is shown in a form: a dialogue is not a page.
const WORDS_BYTES: usize = 4 * 1024;
/// What of a question stands over its field, where it has no header.
const TITLE_BYTES: usize = 80;
/// What of a question stands beside its field: the message has more of it.
const BESIDE_BYTES: usize = 512;

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

/// Makes the form of a question, with a field for each item. `problem` says what was wrong with what was filled in before.
pub(crate) fn form(
    id: &QuestionId,
    subagent: &str,
    question: &Question,
    chooses_several: bool,
    problem: Option<&str>,
) -> Result<ElicitRequestParams, serde_json::Error> {
    let items = question.items();
    let fields = items.iter().map(|item| (item.id().to_string(), field(item, chooses_several)));
    let required: Vec<Value> = items.iter().map(|item| json!(item.id())).collect();
    let schema = json!({"type": "object", "properties": fields.collect::<Map<_, _>>(), "required": required});
    let Value::Object(schema) = schema else {
        return ElicitationSchema::from_json_schema(Map::new()).map(empty);
    };
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(id, subagent, question, problem),
        requested_schema: ElicitationSchema::from_json_schema(schema)?,
    })
}

fn empty(requested_schema: ElicitationSchema) -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams { meta: None, message: String::new(), requested_schema }
}

/// Says all that a person needs to decide: an option's description has no place in the fields of every client.
fn message(id: &QuestionId, subagent: &str, question: &Question, problem: Option<&str>) -> String {
    let mut lines = Vec::new();
    lines.extend(problem.map(|problem| format!("That was not taken: {problem}.\n")));
    lines.push(format!("The agent `{subagent}` asks ({id}):"));
    lines.extend(question.context().map(|context| shown(context, WORDS_BYTES)));
    for item in question.items() {
        lines.push(String::new());
        lines.push(shown(item.question(), WORDS_BYTES));
        for choice in item.options() {
            let means = choice.description.as_ref().map(|text| format!(": {text}"));
            lines.push(format!("- {}{}", choice.label, means.unwrap_or_default()));
        }
    }
    lines.push("\nTo decline ends the agent's work. To close this leaves the question open.".to_owned());
    lines.join("\n")
}

/// Cuts words for a person, and says where they find all of them.
fn shown(text: &str, most: usize) -> String {
    let cut = clipped(text, most, None);
    if cut == text { cut } else { format!("{cut} (`agora inbox` shows all of it)") }
}

/// Returns what stands over a field. An item's id may be nothing but its place, so where there is no header its words do.
fn title(item: &Item) -> String {
    let words = item.header().unwrap_or_else(|| item.question());
    match words.floor_char_boundary(TITLE_BYTES) {
        end if end == words.len() => words.to_owned(),
        end => format!("{}…", &words[..end]),
    }
}

fn field(item: &Item, chooses_several: bool) -> Value {
    let title = title(item);
    let asked = clipped(item.question(), BESIDE_BYTES, None);
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
