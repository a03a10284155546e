//! How a dispatch went, for a person: what it said, what it changed, which half failed, and what to do next.

use agora_core::reason::{Failure, FailureCode, FailureReason};
use agora_engine::DispatchResult;
use serde_json::Value;

use crate::cli::span;
use crate::ui::Ui;

/// How many files that lost to others a person is told of.
const SHOWN_DROPPED: usize = 5;

/// Returns the agent's words, as the result of a command.
pub(crate) fn words(result: &DispatchResult) -> String {
    let text = result.output.text.trim_end();
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}

/// Tells how it went, beside the result.
pub(crate) fn tell(ui: Ui, result: &DispatchResult) {
    for warning in result.warnings.iter().cloned().chain(dropped(result)) {
        ui.warn(warning);
    }
    match (&result.failure, &result.needs_input) {
        (Some(failure), _) => {
            ui.complain(&format!("{}: {}", half(failure), failure.detail));
            for hint in hints(result, failure) {
                ui.hint(hint);
            }
        }
        (None, Some(asked)) => {
            ui.note(format_args!("{} asks:\n{}", result.subagent, asked.question));
            for option in &asked.options {
                ui.note(format_args!("  - {option}"));
            }
            ui.note(asked.question_id.as_str());
        }
        (None, None) => {
            ui.note(summary(result));
            if result.state == "finished" && says_nothing(result) {
                ui.hint(format_args!(
                    "it changed no file and said nothing; `agora logs {}` shows what it did",
                    result.dispatch_id
                ));
            }
        }
    }
}

fn says_nothing(result: &DispatchResult) -> bool {
    let changed = result.patch.as_ref().is_some_and(|patch| patch.files > 0);
    !changed && result.outputs.is_empty() && result.output.text.trim().is_empty()
}

/// Says in a line what came of it.
fn summary(result: &DispatchResult) -> String {
    let mut parts = vec![format!("{} in {}", result.state, span(result.duration_ms))];
    parts.extend(result.patch.as_ref().filter(|patch| patch.files > 0).map(|patch| {
        let files = if patch.files == 1 { "file" } else { "files" };
        format!("{} {files} changed (+{} -{})", patch.files, patch.insertions, patch.deletions)
    }));
    parts.extend(
        result
            .verify
            .as_ref()
            .map(|verify| if verify.passed { "verified".to_owned() } else { "verify failed".to_owned() }),
    );
    parts.extend(
        result
            .usage
            .as_ref()
            .map(|usage| format!("{} tokens", usage.tokens()))
            .filter(|text| text != "0 tokens"),
    );
    parts.extend(result.usage.as_ref().and_then(|usage| usage.cost_usd).map(|usd| format!("${usd:.4}")));
    format!("{}\n{}", parts.join(", "), result.dispatch_id)
}

/// Says which half of a dispatch failed.
fn half(failure: &Failure) -> String {
    let where_ = match failure.reason {
        FailureReason::IntegrityFailed => "what was to run is not what was registered",
        FailureReason::FetchFailed => "something that the dispatch needs could not be had",
        FailureReason::WorkerFailed => "what surrounds the agent failed",
        FailureReason::ProviderFailed => "the agent failed",
    };
    format!("{where_} ({}, {})", failure.reason, failure.code)
}

/// What to try, by what a person would otherwise search for.
fn hints(result: &DispatchResult, failure: &Failure) -> Vec<String> {
    let id = &result.dispatch_id;
    let mut hints: Vec<String> = failure.hint.iter().cloned().collect();
    let env: Vec<String> = result.resolved.env.iter().map(|env| format!("`{}`", env.name)).collect();
    let env = if env.is_empty() { "none".to_owned() } else { env.join(", ") };
    match &failure.code {
        FailureCode::Auth | FailureCode::AgentExit if result.auth.is_none() => {
            hints.push(format!("the agent had no credential (env bundles: {env}); most often that is why"));
            hints.push("`agora env register --name default --secret ANTHROPIC_API_KEY=env:ANTHROPIC_API_KEY` gives it one".to_owned());
        }
        FailureCode::Auth => hints.push(format!(
            "the credential is refused (env bundles: {env}); rotate it with `agora env register`"
        )),
        FailureCode::RateLimited => hints.extend(
            failure.retry_at.map(|at| format!("the limit ends at {at}; `agora continue {id}` goes on then")),
        ),
        FailureCode::HashMismatch | FailureCode::BundleMalformed => {
            hints.push("look at the disk's space and the permissions of AGORA_HOME; registering the same content again mends the store".to_owned());
        }
        FailureCode::SetupFailed => {
            hints.push(format!("`agora logs {id} --part setup` shows what the script printed"));
        }
        FailureCode::WorkerLost => {
            hints.push(format!("`agora continue {id}` starts again from what was kept"));
        }
        _ => {}
    }
    if failure.reason == FailureReason::ProviderFailed {
        hints.push(format!("`agora logs {id}` shows what the agent printed"));
    }
    hints
}

/// Says which files are not there because of others: a setup script that never ran looks like one that failed.
fn dropped(result: &DispatchResult) -> Vec<String> {
    let lines = result.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let said = lines.filter(|line| line["kind"] == "overlay.dropped").map(|line| {
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let (path, winner, loser) = (word("path"), word("winner"), word("loser"));
        if path == "agora-setup.sh" {
            format!("the `agora-setup.sh` of `{loser}` does not run: that of `{winner}` took its place")
        } else {
            format!("`{path}` of `{loser}` is not there: that of `{winner}` took its place")
        }
    });
    let mut said: Vec<String> = said.collect();
    let more = said.len().saturating_sub(SHOWN_DROPPED);
    said.truncate(SHOWN_DROPPED);
    said.extend((more > 0).then(|| format!("{more} more files lost to others; `agora explain` lists them")));
    said
}

/// Tells everything that is known, for `agora show`.
pub(crate) fn whole(result: &DispatchResult) -> String {
    let mut lines = vec![
        format!("dispatch:    {}", result.dispatch_id),
        format!("thread:      {}", result.thread_id),
        format!("state:       {}", result.state),
        format!("subagent:    {}@{}", result.subagent, result.resolved.subagent.content_hash),
        format!("target:      {} (isolation: {})", result.target, result.isolation.level),
        format!("accepted:    {}", result.accepted_at),
    ];
    lines.extend(result.place.map(|ahead| format!("waits:       {ahead} before it")));
    lines.extend(result.ended_at.map(|at| format!("ended:       {at}, after {}", span(result.duration_ms))));
    lines.extend(
        result
            .resolved
            .capabilities
            .iter()
            .map(|one| format!("capability:  {}@{}", one.name, one.content_hash)),
    );
    lines.extend(
        result.resolved.env.iter().map(|one| format!("env:         {}@{}", one.name, one.content_hash)),
    );
    lines.extend(result.auth.as_ref().map(|auth| format!("credential:  {auth}")));
    lines.extend(result.usage.as_ref().map(|usage| {
        let cost = usage.cost_usd.map(|usd| format!(", ${usd:.4}")).unwrap_or_default();
        format!("used:        {} turns, {} tokens{cost}", usage.turns, usage.tokens())
    }));
    lines.extend(result.patch.as_ref().map(|patch| {
        format!(
            "changed:     {} files (+{} -{}); `agora logs {} --part patch`",
            patch.files, patch.insertions, patch.deletions, result.dispatch_id
        )
    }));
    lines.extend(result.verify.as_ref().map(|verify| {
        format!(
            "verify:      {} in {}",
            if verify.passed { "passed" } else { "failed" },
            span(verify.duration_ms)
        )
    }));
    lines.extend(result.failure.iter().flat_map(|failure| {
        let said = format!("failed:      {}: {}", half(failure), failure.detail);
        std::iter::once(said)
            .chain(hints(result, failure).into_iter().map(|hint| format!("hint:        {hint}")))
    }));
    lines.extend(result.needs_input.as_ref().map(|asked| {
        let options = if asked.options.is_empty() {
            String::new()
        } else {
            format!(" [{}]", asked.options.join(" | "))
        };
        format!("asks:        {}{options} ({})", asked.question, asked.question_id)
    }));
    lines.extend(
        result
            .warnings
            .iter()
            .cloned()
            .chain(dropped(result))
            .map(|warning| format!("warning:     {warning}")),
    );
    let text = result.output.text.trim_end();
    if !text.is_empty() {
        lines.push(format!("\n{text}"));
    }
    lines.join("\n") + "\n"
}
