//! What a subagent resolves to, what is laid over its workspace, and the prompts that it makes.

mod overlay;

use agora_core::Name;
use agora_core::bundle::{Capability, EnvBundle, Runtime, Subagent, VariableName};
use agora_core::catalogue::ResolveError;
use agora_core::event::ResolvedBundle;
use agora_core::provider::registry::Version;
use agora_core::reference::BundleRef;
use agora_core::template::{PromptData, Resumption, Template};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::agora::{Agora, Found};
use crate::error::Error;
use overlay::HelperSkill;
pub use overlay::{ExplainedOverlay, LaidFrom};

/// The switch by which an env bundle leaves the helper's skill out.
const NO_HELPER: &str = "AGORA_DISABLE_NEEDS_INPUT_HELPER";

/// What a dispatch of a subagent would be made of.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub subagent: ResolvedBundle,
    /// In the order in which they are laid over the workspace; later wins.
    pub capabilities: Vec<ExplainedCapability>,
    pub overlay: ExplainedOverlay,
    /// The bundle that is used when none is named: `default`, if there is one.
    pub env: Option<ResolvedBundle>,
    pub runtime: String,
    /// The program and its arguments, where the runtime is a command.
    pub command: Option<Vec<String>>,
    pub model: Option<String>,
    /// What the input must have: as declared, or derived from the template.
    pub inputs: Option<Map<String, Value>>,
    pub inputs_derived: bool,
    pub system_prompt: Option<String>,
    pub prompts: Prompts,
}

/// A capability of a subagent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCapability {
    pub reference: BundleRef,
    pub resolved: ResolvedBundle,
    pub files: usize,
    pub bytes: u64,
}

/// The prompt of a first dispatch, and of one that goes on with an answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompts {
    pub first: String,
    pub resumed: String,
}

impl Agora {
    /// Explains a subagent. Without an input, `<name>` stands for each of its keys.
    pub async fn explain(
        &self,
        reference: &BundleRef,
        input: Option<Map<String, Value>>,
    ) -> Result<Explanation, Error> {
        let Found { name, version, body: subagent } = self.subagent(reference).await?;
        let mut capabilities = Vec::new();
        for reference in &subagent.capabilities {
            capabilities.push(self.get::<Capability>(reference).await?);
        }
        let env = self.default_env().await?;
        let helper = env.as_ref().map_or(HelperSkill::Installed, |env| helper_skill(&env.body));
        let overlay = self.explain_overlay(&subagent.runtime, helper, &capabilities).await?;
        let derived = subagent.prompt_template.as_ref().map(Template::derived_inputs);
        let inputs_derived = subagent.inputs.is_none() && derived.is_some();
        let inputs = subagent.inputs.clone().or(derived);
        let input = input.unwrap_or_else(|| placeholders(inputs.as_ref()));
        Ok(Explanation {
            subagent: resolved(name, version),
            capabilities: subagent.capabilities.iter().cloned().zip(capabilities).map(capability).collect(),
            overlay,
            env: env.map(|env| resolved(env.name, env.version)),
            runtime: subagent.runtime.as_str().to_owned(),
            command: match &subagent.runtime {
                Runtime::Command(command) => Some(command.clone()),
                _ => None,
            },
            model: subagent.model.clone().map(String::from),
            inputs,
            inputs_derived,
            system_prompt: subagent.system_prompt.clone(),
            prompts: prompts(&subagent, &input)?,
        })
    }

    /// Returns the env bundle that is used when none is named, if there is one.
    pub(crate) async fn default_env(&self) -> Result<Option<Found<EnvBundle>>, Error> {
        let Ok(reference) = "default".parse() else { return Ok(None) };
        match self.get(&reference).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::Resolve(ResolveError::UnknownName { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn helper_skill(env: &EnvBundle) -> HelperSkill {
    let is_on = |(name, value): (&VariableName, &String)| name.as_str() == NO_HELPER && value == "true";
    if env.values().iter().any(is_on) { HelperSkill::Disabled } else { HelperSkill::Installed }
}

fn capability((reference, found): (BundleRef, Found<Capability>)) -> ExplainedCapability {
    ExplainedCapability {
        reference,
        files: found.body.files().len(),
        bytes: found.body.total_bytes(),
        resolved: resolved(found.name, found.version),
    }
}

fn prompts(subagent: &Subagent, input: &Map<String, Value>) -> Result<Prompts, Error> {
    let template = subagent.prompt_template.as_ref();
    let resumption = Resumption {
        answer: json!("<answer>"),
        answers: Map::from_iter([("q1".to_owned(), json!("<answer>"))]),
        partial_state: json!({"<key>": "<what the agent had worked out>"}),
    };
    let first = PromptData::new(input, "<threadId>", "<dispatchId>", None);
    let resumed = PromptData::new(input, "<threadId>", "<dispatchId>", Some(resumption));
    Ok(Prompts {
        first: first.prompt(template).map_err(Error::Render)?,
        resumed: resumed.prompt(template).map_err(Error::Render)?,
    })
}

/// Makes an input in which `<name>` stands for each key, so that a prompt can be shown before there is one.
fn placeholders(inputs: Option<&Map<String, Value>>) -> Map<String, Value> {
    let properties = inputs.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    match properties {
        Some(properties) if !properties.is_empty() => {
            properties.keys().map(|key| (key.clone(), json!(format!("<{key}>")))).collect()
        }
        _ => Map::from_iter([("task".to_owned(), json!("<task>"))]),
    }
}

fn resolved(name: Name, version: Version) -> ResolvedBundle {
    ResolvedBundle { name, content_hash: version.content_hash, registered_at: version.registered_at }
}
