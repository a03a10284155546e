//! What a tool is given. The same types say how it is read and what a model is told about it; what they do not have cannot be asked
//! for: no image, no command, no secret, no callback, nobody else's name.

use agora_core::bundle::{Budget, OnLimit};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Trouble;

/// As many as one call may start.
pub(crate) const INPUTS: usize = 50;
/// Clients give up on a call that takes a minute.
pub(crate) const LONGEST_WAIT_SECONDS: u64 = 50;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DispatchArguments {
    /// The subagent to run, by its name as `agora_subagents_list` shows it.
    pub(crate) subagent: String,
    /// The input of one dispatch, such as `{"task": "split the parser"}`. It must fit the subagent's `inputSchema`. Give this or `inputs`.
    pub(crate) input: Option<Map<String, Value>>,
    /// Many inputs at once: each starts a dispatch of its own, and they run in parallel. At most 50, and no more than may be under
    /// way at once: 20 of yours all together, unless your user changed that. All of them together have 4 MiB at most.
    #[schemars(length(min = 1, max = 50))]
    pub(crate) inputs: Option<Vec<Map<String, Value>>>,
    /// What the agent works on a copy of: a directory inside one of the workspaces that the user configured, absolute or relative to the
    /// first of them; `.` is that one itself. Left out: an empty directory.
    pub(crate) workspace: Option<String>,
    /// A commit, branch or tag of the workspace's git repository, instead of the files as they are now.
    pub(crate) base: Option<String>,
    /// Env bundles by name, later ones win. Left out: the bundle `default`, if there is one.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// Capabilities by name, instead of those of the subagent.
    pub(crate) capabilities: Option<Vec<String>>,
    /// Capabilities by name, in addition to those of the subagent.
    pub(crate) add_capabilities: Option<Vec<String>>,
    /// Where it runs, by name. Left out: `local`.
    pub(crate) target: Option<String>,
    /// A larger or smaller model than the subagent's own.
    pub(crate) model: Option<ModelSize>,
    /// The agent's time in seconds. Left out: two hours.
    #[schemars(range(min = 1, max = 86_400))]
    pub(crate) timeout_seconds: Option<u32>,
    /// What each thread may use up. It can only be less than what the user allows.
    pub(crate) budget: Option<BudgetArguments>,
    /// Labels by which the user finds it again.
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    /// The same call under the same key starts nothing twice, and another call under it is refused.
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModelSize {
    Fast,
    Standard,
    Max,
}

impl ModelSize {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Standard => "standard",
            Self::Max => "max",
        }
    }
}

/// What a thread may use up, all its dispatches together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct BudgetArguments {
    #[schemars(range(min = 1))]
    pub(crate) turns: Option<u32>,
    #[schemars(range(min = 1))]
    pub(crate) tokens: Option<u64>,
    #[schemars(range(min = 1))]
    pub(crate) minutes: Option<u32>,
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) usd: Option<f64>,
}

impl TryFrom<BudgetArguments> for Budget {
    type Error = Trouble;

    /// Of nothing there is no budget: whoever wants no dispatch starts none.
    fn try_from(given: BudgetArguments) -> Result<Self, Trouble> {
        let BudgetArguments { turns, tokens, minutes, usd } = given;
        let is_money = |usd: f64| usd.is_finite() && usd > 0.0;
        if turns == Some(0) || tokens == Some(0) || minutes == Some(0) || !usd.is_none_or(is_money) {
            return Err(Trouble::new("bad-arguments", "each limit in `budget` must be greater than 0"));
        }
        Ok(Self { turns, tokens, minutes, usd, on_limit: OnLimit::Ask })
    }
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct WaitArguments {
    /// The threads to wait for, by their ids. Left out: all that you dispatched and have not heard the end of.
    pub(crate) threads: Option<Vec<String>>,
    /// `any` returns when one of them has ended whose end you have not heard, `all` when all have. A question is returned at once, either
    /// way. Left out: `any`.
    pub(crate) until: Until,
    /// How long to wait, in seconds. When nothing ended by then, the call says so: call it again. Left out: 50.
    #[schemars(range(min = 0, max = 50))]
    pub(crate) timeout_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Until {
    #[default]
    Any,
    All,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AnswerArguments {
    /// The question's id, `q_…`.
    pub(crate) question_id: String,
    /// Your user's answer to a question of one item: an option's label or number, or any text where no options constrain it. Where several
    /// may be chosen, their labels with commas between them.
    pub(crate) answer: Option<String>,
    /// Your user's answers to a question of several items, by the items' ids, such as `{"database": "sqlite", "tables": ["a", "b"]}`. All of
    /// them, in one call. Give this or `answer`.
    pub(crate) answers: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct IdArguments {
    /// The id of a dispatch, a thread or a question, the beginning of one, or a label.
    pub(crate) id: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct QuestionsArguments {
    /// Only the questions of threads that you dispatched.
    pub(crate) mine: bool,
    /// Only questions that come after this one, for the next page.
    pub(crate) after: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ListArguments {
    /// Only names that come after this one, for the next page.
    pub(crate) after: Option<String>,
}

/// Reads what a tool was given.
pub(crate) fn read<T: DeserializeOwned>(given: Option<JsonObject>) -> Result<T, Trouble> {
    let given = given.unwrap_or_default();
    parsed(&given).map_err(|error| {
        let field = culprit::<T>(&given, &error).map(|field| format!("`{field}`: ")).unwrap_or_default();
        Trouble::new("bad-arguments", format!("the arguments do not fit: {field}{error}"))
            .hint("`tools/list` has the schema; what is not in it cannot be asked for")
    })
}

fn parsed<T: DeserializeOwned>(given: &JsonObject) -> Result<T, String> {
    T::deserialize(given).map_err(|error| error.to_string())
}

/// Finds the field that an error is about: without it there is another, or none. What the error names itself needs no finding.
fn culprit<'a, T: DeserializeOwned>(given: &'a JsonObject, error: &str) -> Option<&'a String> {
    given.keys().filter(|field| !error.contains(&format!("`{field}`"))).find(|field| {
        let others = given.iter().filter(|(other, _)| other != field);
        let others: JsonObject = others.map(|(key, value)| (key.clone(), value.clone())).collect();
        parsed::<T>(&others).err().is_none_or(|other| other != error)
    })
}

/// Returns the schema of what a tool is given. What may be left out is left out, and not null: some clients know one type for a field and no more.
pub(crate) fn input_schema<T: JsonSchema>() -> JsonObject {
    let mut schema = output_schema::<T>();
    schema.values_mut().for_each(leave_out);
    schema
}

/// Returns the schema of a type, whole in one place: some clients follow no references.
pub(crate) fn output_schema<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    let mut object = match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    };
    // The name of a type of ours is nothing to a model.
    object.remove("title");
    object
}

/// Takes away what is Rust's: where a line of a comment ends, and how wide a number is, which some clients refuse as no format that they know.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(words)) = fields.get_mut("description") {
                *words = words.replace('\n', " ");
            }
            fields.retain(|key, value| key != "format" || !value.is_string());
            fields.values_mut().for_each(tidy);
        }
        Value::Array(entries) => entries.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Takes null away from what a field may be. Who gives it all the same gives nothing.
fn leave_out(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    fields.retain(|key, value| key != "default" || !value.is_null());
    if let Some(Value::Array(choices)) = fields.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    if let Some(Value::Array(types)) = fields.get("type")
        && let [one] = types.iter().filter(|word| *word != "null").cloned().collect::<Vec<_>>().as_slice()
    {
        fields.insert("type".to_owned(), one.clone());
    }
    fields.values_mut().for_each(leave_out);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { unreachable!() };
        read::<DispatchArguments>(Some(arguments)).unwrap_err().message
    }

    #[test]
    fn what_a_model_must_not_choose_has_no_name() {
        for field in [
            "image",
            "command",
            "secrets",
            "secret",
            "callback",
            "notifications",
            "runtime",
            "dispatchId",
            "principal",
            "priority",
            "retentionDays",
            "partialState",
        ] {
            let said = refusal(json!({"subagent": "planner", field: "x"}));
            assert!(said.contains(&format!("unknown field `{field}`")), "{said}");
        }
    }

    #[test]
    fn a_model_is_told_which_field_does_not_fit() {
        let fits = |arguments: Value| {
            refusal(arguments).strip_prefix("the arguments do not fit: ").unwrap().to_owned()
        };
        assert_eq!(
            fits(json!({"subagent": 1, "labels": []})),
            "`subagent`: invalid type: integer `1`, expected a string"
        );
        assert_eq!(
            fits(json!({"subagent": "planner", "inputs": {}})),
            "`inputs`: invalid type: map, expected a sequence"
        );
        assert_eq!(
            fits(json!({"subagent": "planner", "timeoutSeconds": -1})),
            "`timeoutSeconds`: invalid value: integer `-1`, expected u32"
        );
        assert_eq!(fits(json!({"labels": []})), "missing field `subagent`");
    }

    #[test]
    fn a_budget_is_more_than_nothing() {
        let budget = |given: Value| {
            let given: BudgetArguments = serde_json::from_value(given).unwrap();
            Budget::try_from(given).map_err(|trouble| trouble.code)
        };
        for nothing in
            [json!({"usd": -5}), json!({"usd": 0}), json!({"turns": 0}), json!({"tokens": 0, "usd": 1})]
        {
            assert_eq!(budget(nothing.clone()), Err("bad-arguments".to_owned()), "{nothing}");
        }
        let some = Budget { turns: Some(3), usd: Some(0.5), ..Budget::default() };
        assert_eq!(budget(json!({"turns": 3, "usd": 0.5})), Ok(some));
    }

    #[test]
    fn a_schema_stands_alone() {
        let schema = Value::Object(input_schema::<DispatchArguments>());
        assert!(!schema.to_string().contains("$ref"), "{schema}");
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["required"], json!(["subagent"]));
    }

    #[test]
    fn a_schema_says_nothing_that_a_client_may_not_know() {
        for schema in [input_schema::<DispatchArguments>(), input_schema::<WaitArguments>()] {
            let text = Value::Object(schema).to_string();
            for strange in ["null", "\"format\"", "\\n"] {
                assert!(!text.contains(strange), "{strange}: {text}");
            }
        }
        let schema = input_schema::<DispatchArguments>();
        assert_eq!(schema["properties"]["model"]["enum"], json!(["fast", "standard", "max"]));
        let turns = &schema["properties"]["budget"]["properties"]["turns"];
        assert_eq!(*turns, json!({"type": "integer", "minimum": 1}));
        let null = json!({"subagent": "planner", "model": null, "budget": {"turns": null}});
        let Value::Object(null) = null else { unreachable!() };
        assert!(read::<DispatchArguments>(Some(null)).is_ok(), "who sends null means nothing");
    }
}
