//! `agora explain`: what a subagent resolves to, and its prompts.

use agora_core::limits::DEFINITION_BYTES;
use agora_core::reference::BundleRef;
use agora_engine::Explanation;
use clap::Args;
use serde_json::{Map, Value};

use super::subagent::indented;
use super::{Context, counted, parse};
use crate::failure::Failure;

/// See what a subagent resolves to, and its prompts
#[derive(Debug, Args)]
#[command(
    long_about = "See what a subagent resolves to, and the prompts of a first and of a resumed dispatch.\n\nWithout `--input`, `<name>` stands for each key of the input.",
    after_help = "Example:\n  agora explain planner --input '{\"task\": \"split the parser\"}'"
)]
pub(super) struct Explain {
    /// A subagent: its name, `name@sha256:…`, or `name@<RFC 3339 time>`
    #[arg(value_name = "SUBAGENT", value_parser = parse::<BundleRef>)]
    reference: BundleRef,
    /// The input as JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
}

impl Explain {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let input = self.input.as_deref().map(read_input).transpose()?;
        let explanation = context.config.agora().explain(&self.reference, input).await?;
        context.ui.result(|| &explanation, || text(&explanation))
    }
}

fn read_input(argument: &str) -> Result<Map<String, Value>, Failure> {
    let text = match argument.strip_prefix('@') {
        None => argument.to_owned(),
        Some(file) => {
            let failed = |why: String| {
                Failure::wrong("file-unreadable", format!("`{file}` cannot be read")).because(why)
            };
            let size = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
            if size > DEFINITION_BYTES {
                return Err(failed(format!("it has {size} bytes, the most is {DEFINITION_BYTES}")));
            }
            std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?
        }
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::wrong("bad-input", "the input is not a JSON object")
            .because(error)
            .hint("such as `--input '{\"task\": \"…\"}'`")
    })
}

fn text(explanation: &Explanation) -> String {
    let Explanation { subagent, capabilities, env, runtime, model, inputs, system_prompt, prompts, .. } =
        explanation;
    let mut parts = vec![format!("subagent:    {}@{}\n", subagent.name, subagent.content_hash)];
    let model = model.as_ref().map(|model| format!(", model {model}")).unwrap_or_default();
    parts.push(format!("runtime:     {runtime}{model}\n"));
    parts.extend(capabilities.iter().map(|capability| {
        let (resolved, files, bytes) = (&capability.resolved, capability.files, capability.bytes);
        format!(
            "capability:  {}@{} ({}, {bytes} bytes)\n",
            resolved.name,
            resolved.content_hash,
            counted(files, "file")
        )
    }));
    parts.push(match env {
        Some(env) => format!("env:         {}@{}\n", env.name, env.content_hash),
        None => "env:         none (a bundle named `default` would be used)\n".to_owned(),
    });
    parts.extend(inputs.as_ref().map(|inputs| {
        let origin = if explanation.inputs_derived { "derived from the template" } else { "declared" };
        format!("inputs:      {} ({origin})\n", Value::Object(inputs.clone()))
    }));
    let block = |(title, text): (&str, &str)| format!("\n{title}:\n{}\n", indented(text));
    parts.extend(system_prompt.as_ref().map(|prompt| block(("system prompt", prompt))));
    parts.extend([("first prompt", prompts.first.as_str()), ("resumed prompt", &prompts.resumed)].map(block));
    parts.concat()
}
