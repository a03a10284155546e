//! `agora explain`: what a subagent resolves to, what is laid over its workspace, and its prompts.

use agora_core::Name;
use agora_core::limits::DEFINITION_BYTES;
use agora_core::reference::BundleRef;
use agora_engine::{ExplainedOverlay, Explanation, LaidFrom};
use clap::Args;
use serde_json::{Map, Value};

mod sandbox;

use super::subagent::indented;
use super::{Context, counted, parse};
use crate::failure::Failure;

/// How many files a person is shown; with `--json` nothing that is dropped is left out.
const SHOWN_FILES: usize = 20;

/// See what a subagent resolves to, and its prompts
#[derive(Debug, Args)]
#[command(
    long_about = "See what a subagent resolves to, what its capabilities lay over the workspace, and the prompts of a first and of a resumed dispatch.\n\nWithout `--input`, `<name>` stands for each key of the input.",
    after_help = "Examples:\n  agora explain planner --input '{\"task\": \"split the parser\"}'\n  agora explain --sandbox"
)]
pub(super) struct Explain {
    /// A subagent: its name, `name@sha256:…`, or `name@<RFC 3339 time>`
    #[arg(value_name = "SUBAGENT", value_parser = parse::<BundleRef>, required_unless_present = "sandbox")]
    reference: Option<BundleRef>,
    /// The input as JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// What an agent would see of this machine, and what its wall leaves open
    #[arg(long, conflicts_with = "input")]
    sandbox: bool,
    /// Whose wall: a target of `agora.toml`
    #[arg(long, default_value = "local", requires = "sandbox", value_name = "NAME", value_parser = parse::<Name>)]
    target: Name,
}

impl Explain {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let input = self.input.as_deref().map(read_input).transpose()?;
        let agora = context.config.agora();
        let explanation = match &self.reference {
            Some(reference) => Some(agora.explain(reference, input).await?),
            None => None,
        };
        match explanation {
            Some(explanation) if !self.sandbox => context.ui.result(|| &explanation, || text(&explanation)),
            _ => sandbox::explain(context, &self.target),
        }
    }
}

pub(super) fn read_input(argument: &str) -> Result<Map<String, Value>, Failure> {
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
    let Explanation {
        subagent,
        capabilities,
        overlay,
        env,
        runtime,
        command,
        model,
        inputs,
        system_prompt,
        prompts,
        ..
    } = explanation;
    let mut parts = vec![format!("subagent:    {}@{}\n", subagent.name, subagent.content_hash)];
    let model = model.as_ref().map(|model| format!(", model {model}")).unwrap_or_default();
    parts.push(format!("runtime:     {runtime}{model}\n"));
    parts.extend(
        command.as_ref().map(|command| format!("command:     {}\n", Value::from(command.as_slice()))),
    );
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
    parts.push(overlay_text(overlay));
    let block = |(title, text): (&str, &str)| format!("\n{title}:\n{}\n", indented(text));
    parts.extend(system_prompt.as_ref().map(|prompt| block(("system prompt", prompt))));
    parts.extend([("first prompt", prompts.first.as_str()), ("resumed prompt", &prompts.resumed)].map(block));
    parts.concat()
}

fn overlay_text(overlay: &ExplainedOverlay) -> String {
    let laid = overlay.laid.iter().map(|LaidFrom { path, from }| match from.as_slice() {
        [owner] => format!("{path} (from {owner})"),
        owners => {
            let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
            format!("{path} (merged from {})", owners.join(", "))
        }
    });
    let dropped = overlay.dropped.iter().map(|dropped| {
        format!("dropped: {} of {}, replaced by {}", dropped.path, dropped.loser, dropped.winner)
    });
    let conflict = overlay
        .conflict
        .iter()
        .map(|conflict| format!("conflict: {conflict}; a dispatch would fail with `overlay-conflict`"));
    let lines = some_of(laid, "file").chain(some_of(dropped, "dropped file")).chain(conflict);
    let text: String = lines.map(|line| format!("  {line}\n")).collect();
    format!("\noverlay ({}):\n{text}", counted(overlay.laid.len(), "file"))
}

/// Returns the first lines, and one that says how many there are besides.
fn some_of(lines: impl ExactSizeIterator<Item = String>, thing: &str) -> impl Iterator<Item = String> {
    let more = lines.len().saturating_sub(SHOWN_FILES);
    let more = (more > 0).then(|| format!("… and {more} more {thing}{}", if more == 1 { "" } else { "s" }));
    lines.take(SHOWN_FILES).chain(more)
}
