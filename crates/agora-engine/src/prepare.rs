//! From what was written to a bundle that passed every check and is not stored yet.

use std::collections::BTreeMap;

use agora_core::Name;
use agora_core::Namespace;
use agora_core::bundle::{
    Bundle, Encoded, EnvBundle, Manifest, RawSubagent, Runtime, Subagent, VariableName,
};
use agora_core::credential::{self, Pattern};
use agora_core::secret::{SecretName, SecretRef, SecretValue};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::secret::SecretInput;

/// An env bundle, and the values that must be in the store before it is registered.
#[derive(Debug)]
pub(crate) struct PreparedEnv {
    pub(crate) manifest: Encoded,
    pub(crate) values: Vec<(VariableName, SecretName, SecretValue)>,
}

/// Checks a subagent's definition. Whether its capabilities exist is for the caller, who knows which are coming.
pub(crate) fn subagent(name: &Name, raw: RawSubagent, allowed: &[Pattern]) -> Result<Subagent, Error> {
    if let Some(written) = raw.name.as_ref().filter(|written| *written != name.as_str()) {
        return Err(Error::OtherName { written: written.clone(), given: name.clone() });
    }
    let subagent = Subagent::new(raw).map_err(|source| Error::Subagent { name: name.clone(), source })?;
    check_schema("inputs", subagent.inputs.as_ref())?;
    check_schema("outputSchema", subagent.output_schema.as_ref())?;
    for (field, text) in words(&subagent) {
        if let Some(hit) = credential::find(text.as_bytes(), allowed) {
            return Err(Error::Credential { place: format!("`{field}`"), hit });
        }
    }
    Ok(subagent)
}

pub(crate) fn encode(bundle: Bundle) -> Result<Encoded, Error> {
    Manifest::new(bundle).encode().map_err(Error::Canonical)
}

/// Checks an env bundle. A value that came in is given a place in the local store, and the bundle refers to it.
pub(crate) fn env(
    namespace: &Namespace,
    name: &Name,
    values: BTreeMap<VariableName, String>,
    secrets: BTreeMap<VariableName, SecretInput>,
    allowed: &[Pattern],
) -> Result<PreparedEnv, Error> {
    let mut references = BTreeMap::new();
    let mut stored = Vec::new();
    for (variable, input) in secrets {
        let reference = match input {
            SecretInput::Reference(reference) => reference,
            SecretInput::Value(value) => {
                let place = local_name(namespace, name, &variable);
                stored.push((variable.clone(), place.clone(), value));
                SecretRef::Local(place)
            }
        };
        references.insert(variable, reference);
    }
    let shown = values.iter().map(|(variable, value)| (variable, value.clone()));
    let referred = references.iter().map(|(variable, reference)| (variable, reference.to_string()));
    for (variable, text) in shown.chain(referred) {
        if let Some(hit) = credential::find(text.as_bytes(), allowed) {
            return Err(Error::Credential { place: format!("the value of `{variable}`"), hit });
        }
    }
    let bundle =
        EnvBundle::new(values, references).map_err(|source| Error::Env { name: name.clone(), source })?;
    Ok(PreparedEnv { manifest: encode(Bundle::Env(bundle))?, values: stored })
}

/// Names the place of a secret's value: one per namespace, bundle and variable, so that storing again rotates it.
fn local_name(namespace: &Namespace, bundle: &Name, variable: &VariableName) -> SecretName {
    #[expect(
        clippy::expect_used,
        reason = "each part is well formed by its type, and four parts are not too many"
    )]
    format!("env/{namespace}/{bundle}/{variable}").parse().expect("parts of checked names make a name")
}

/// Returns every text of a subagent that a credential could hide in, with the field's name.
fn words(subagent: &Subagent) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    let mut add = |field, text: Option<&str>| words.extend(text.map(|text| (field, text.to_owned())));
    add("description", subagent.description.as_deref());
    add("systemPrompt", subagent.system_prompt.as_deref());
    add("promptTemplate", subagent.prompt_template.as_ref().map(|template| template.source()));
    add("verify.command", subagent.verify.as_ref().map(|verify| verify.command.as_str()));
    if let Runtime::Command(command) = &subagent.runtime {
        add("command", Some(&command.join(" ")));
    }
    let mut add_json = |field, value: Option<&Map<String, Value>>| {
        words.extend(value.map(|value| (field, Value::Object(value.clone()).to_string())));
    };
    add_json("inputs", subagent.inputs.as_ref());
    add_json("outputSchema", subagent.output_schema.as_ref());
    add_json("claude", subagent.claude.as_ref());
    words
}

fn check_schema(field: &'static str, schema: Option<&Map<String, Value>>) -> Result<(), Error> {
    let Some(schema) = schema else { return Ok(()) };
    let schema = Value::Object(schema.clone());
    let result = jsonschema::meta::validate(&schema)
        .map_err(|error| (error.instance_path().to_string(), error.to_string()));
    result.map_err(|(path, error)| {
        let place = if path.is_empty() { String::new() } else { format!("at `{path}`: ") };
        Error::Schema { field, why: format!("{place}{error}") }
    })
}
