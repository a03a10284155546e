//! A call of the model, as the agent made it.

use std::collections::BTreeMap;

use serde_json::Value;

/// One recorded call of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// With the query.
    pub path: String,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

impl Request {
    /// Tells whether any text in the body contains this one.
    pub fn holds(&self, text: &str) -> bool {
        any_text(&self.body, &|candidate| candidate.contains(text))
    }

    /// Returns the names of the tools that the agent offers. Codex puts some into namespaces: `namespace.tool`.
    pub fn tools(&self) -> Vec<String> {
        let mut names = Vec::new();
        for tool in list(&self.body["tools"]) {
            // Tools that the service itself runs have a type and no name.
            let Some(name) = tool["name"].as_str().or(tool["type"].as_str()) else { continue };
            match tool["tools"].as_array() {
                None => names.push(name.to_owned()),
                Some(inner) => {
                    let inner = inner.iter().filter_map(|tool| tool["name"].as_str());
                    names.extend(inner.map(|tool| format!("{name}.{tool}")));
                }
            }
        }
        names
    }

    /// Returns the calls of tools that the conversation holds so far, in their order, each as name and input in one text.
    pub fn calls(&self) -> Vec<String> {
        let blocks = list(&self.body["messages"]).iter().flat_map(|message| list(&message["content"]));
        let said = blocks.filter(|block| block["type"] == "tool_use");
        let items = list(&self.body["input"]).iter();
        let made = items.filter(|item| item["type"].as_str().is_some_and(|kind| kind.ends_with("_call")));
        let input = |call: &Value| {
            let input = ["input", "arguments", "action"].into_iter().find_map(|key| call.get(key));
            input
                .map(|input| input.as_str().map_or_else(|| input.to_string(), str::to_owned))
                .unwrap_or_default()
        };
        said.chain(made)
            .map(|call| format!("{} {}", call["name"].as_str().unwrap_or_default(), input(call)))
            .collect()
    }

    /// Returns what agent and model said to each other so far, in its order. Without what only says how it is to be cached.
    pub fn conversation(&self) -> Vec<Value> {
        let said = list(&self.body["messages"]).iter().chain(list(&self.body["input"]));
        said.cloned().map(without_caching).collect()
    }

    /// Returns what the agent's maker, operator and files tell the model above the conversation: the system prompt,
    /// and the messages that are neither the user's nor the model's.
    pub fn system_text(&self) -> String {
        let Self { body, .. } = self;
        let messages = list(&body["messages"]).iter().chain(list(&body["input"]));
        let above =
            messages.filter(|message| matches!(message["role"].as_str(), Some("system" | "developer")));
        let parts = [&body["system"], &body["instructions"]].into_iter().chain(above.map(|m| &m["content"]));
        parts.flat_map(texts).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the texts of a content, which is a text or a list of blocks.
fn texts(content: &Value) -> Vec<&str> {
    let blocks = list(content).iter().filter_map(|block| block["text"].as_str());
    content.as_str().into_iter().chain(blocks).collect()
}

fn without_caching(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(|value| *value = without_caching(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_caching(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn any_text(value: &Value, matches: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => matches(text),
        Value::Array(values) => values.iter().any(|value| any_text(value, matches)),
        Value::Object(fields) => fields.values().any(|value| any_text(value, matches)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
