//! Deployments: many bundles in one file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agora_core::Name;
use agora_core::bundle::VariableName;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What a deployment file says, by kind and name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Deployment {
    pub(crate) capabilities: BTreeMap<Name, CapabilityEntry>,
    pub(crate) subagents: BTreeMap<Name, SubagentEntry>,
    pub(crate) envs: BTreeMap<Name, EnvEntry>,
}

/// A directory to register.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapabilityEntry {
    /// Relative to the deployment file.
    pub(crate) from: PathBuf,
}

/// A subagent: the fields of what it extends, then of a file, then its own; later wins, field by field.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct SubagentEntry {
    pub(crate) extends: Option<Name>,
    /// Relative to the deployment file.
    pub(crate) from: Option<PathBuf>,
    pub(crate) fields: Map<String, Value>,
}

impl TryFrom<Map<String, Value>> for SubagentEntry {
    type Error = String;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, String> {
        let mut text = |key: &str| match fields.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{key}` is not a text")),
        };
        let extends =
            text("extends")?.map(|name| name.parse().map_err(|error| format!("`extends`: {error}")));
        let from = text("from")?.map(PathBuf::from);
        Ok(Self { extends: extends.transpose()?, from, fields })
    }
}

/// An env bundle: the variables of what it extends, then its own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnvEntry {
    pub(crate) extends: Option<Name>,
    pub(crate) values: BTreeMap<VariableName, ValueEntry>,
    pub(crate) secrets: BTreeMap<VariableName, ValueEntry>,
}

/// A text, or a variable of whoever deploys: `{ from_env: NAME }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) enum ValueEntry {
    Text(String),
    FromEnv(String),
}

impl TryFrom<Value> for ValueEntry {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let wrong = || "a variable is a text, or `{ from_env: NAME }`".to_owned();
        match value {
            Value::String(text) => Ok(Self::Text(text)),
            // YAML reads `PORT: 8080` as a number; the variable's text is what was written.
            Value::Number(number) => Ok(Self::Text(number.to_string())),
            Value::Bool(yes) => Ok(Self::Text(yes.to_string())),
            Value::Object(mut fields) if fields.len() == 1 => match fields.remove("from_env") {
                Some(Value::String(name)) => Ok(Self::FromEnv(name)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}
