//! How a dispatch went, for a person: what it said, what it changed, which half failed, and what to do next.

use agora_core::reason::{Failure, FailureCode, FailureReason};
use agora_core::state::QuestionState;
use agora_engine::{DispatchResult, NeedsInput, Patch};
use serde_json::Value;

use crate::asking;
use crate::cli::{counted, span};
use crate::left_out;
use crate::ui::Ui;

/// Said before a question that nobody is asked.
const KEPT: &str = "it had asked when the cancel came; the question is kept, and nobody is asked";

/// How many files that lost to others a person is told of.
const SHOWN_DROPPED: usize = 5;

/// Returns the agent's words, as the result of a command. A complaint that is told as the failure is none.
pub(crate) fn words(result: &DispatchResult) -> String {
    let text = result.output.text.trim_end();
    let told = result.failure.as_ref().is_some_and(|failure| failure.detail.trim_end() == text);
    if text.is_empty() || told { String::new() } else { format!("{text}\n") }
}

/// Tells how it went, beside the result.
pub(crate) fn tell(ui: Ui, result: &DispatchResult) {
    for warning in result.warnings.iter().cloned().chain(dropped(result)) {
        ui.warn(warning);
    }
    match (&result.failure, &result.needs_input) {
        (Some(failure), _) => {
            ui.complain(&half(failure), &failure.detail);
            for hint in hints(result, failure) {
                ui.hint(hint);
            }
        }
        (None, Some(asked)) => {
            ui.note(format_args!(
                "{} asks, and has stopped; nothing runs until somebody answers",
                result.subagent
            ));
            ui.note(asking::text(&asked.asked));
            asking::changes(&asked.stale).iter().for_each(|change| ui.note(change));
            ui.note(asked.question_id.as_str());
            if let Some(hint) = to_answer(asked) {
                ui.hint(hint);
            }
        }
        (None, None) => {
            ui.note(summary(result));
            if let Some(kept) = &result.kept_question {
                ui.note(format_args!("{KEPT}\n{}", asking::text(&kept.asked)));
            }
            if let Some(hint) = next(result) {
                ui.hint(hint);
            }
        }
    }
}

/// Says how what was asked is answered, while it can be.
pub(crate) fn to_answer(asked: &NeedsInput) -> Option<String> {
    let is_open = matches!(asked.state, QuestionState::Asked | QuestionState::Open);
    let then = ", and the work goes on where it stopped";
    is_open.then(|| asking::how(&asked.question_id, &asked.asked, &asked.terms, then))
}

/// What to look at next, after an end that is no failure.
fn next(result: &DispatchResult) -> Option<String> {
    let id = &result.dispatch_id;
    if result.state == "cancelled" {
        return result.workspace_saved.then(|| format!("`agora continue {id}` goes on from what was kept"));
    }
    let verify = result.verify.as_ref().filter(|verify| !verify.passed);
    if verify.is_some() {
        return Some(format!("`agora logs {id} --part verify` shows what the verify command found"));
    }
    let home = result.patch.as_ref().and_then(|patch| patch.git_ref.as_ref());
    if let Some(home) = home.filter(|_| changed(result) > 0) {
        // Before the first commit there is nothing to compare with.
        let began = result.workspace.as_ref().and_then(|workspace| workspace.ground.head.as_ref());
        let look = began.map_or(format!("git show {home}"), |_| format!("git diff HEAD...{home}"));
        return Some(format!("`{look}` shows what it changed, `agora apply {id}` brings it into your files"));
    }
    if changed(result) > 0 {
        return Some(format!("`agora logs {id} --part patch` shows what it changed"));
    }
    if result.person.is_some() {
        return Some(format!("`agora continue {id} 'MESSAGE'` lets it go on without you"));
    }
    let silent = if result.output.text.trim().is_empty() { "it said nothing either; " } else { "" };
    let nothing = result.outputs.is_empty();
    nothing.then(|| format!("{silent}`agora logs {id}` shows every step it took"))
}

fn changed(result: &DispatchResult) -> u64 {
    result.patch.as_ref().map_or(0, |patch| patch.files)
}

/// Says in a line what came of it.
fn summary(result: &DispatchResult) -> String {
    let mut parts = match result.started_at {
        Some(_) => vec![format!("{} in {}", result.state, span(result.duration_ms))],
        None => vec![format!("{} before it started", result.state)],
    };
    parts.extend(match &result.patch {
        Some(patch) if patch.files > 0 => Some(change(patch)),
        _ => result.started_at.map(|_| "no file changed".to_owned()),
    });
    parts.extend(
        result
            .verify
            .as_ref()
            .map(|verify| if verify.passed { "verified".to_owned() } else { "verify failed".to_owned() }),
    );
    let used = result.usage.as_ref().filter(|usage| usage.tokens() > 0);
    parts.extend(used.map(|usage| format!("{} tokens", usage.tokens())));
    parts.extend(used.and_then(|usage| usage.cost_usd).map(|usd| format!("${usd:.4}")));
    format!("{}\n{}", parts.join(", "), result.dispatch_id)
}

/// Says how much changed: `1 file changed (+2 -0)`.
pub(crate) fn change(patch: &Patch) -> String {
    let files = counted(usize::try_from(patch.files).unwrap_or(usize::MAX), "file");
    format!("{files} changed (+{} -{})", patch.insertions, patch.deletions)
}

/// Says which half of a dispatch failed: agora before there was a worker, the worker around the agent, or the agent.
fn half(failure: &Failure) -> String {
    let half = match (failure.reason, &failure.code) {
        (FailureReason::IntegrityFailed, _) => {
            "the agent was not started: what was to run is not what was registered"
        }
        (FailureReason::FetchFailed, _) => {
            "the agent was not started: something that it needs could not be had"
        }
        (_, FailureCode::WorkerNotStarted | FailureCode::ComputeUnreachable | FailureCode::ImageMissing) => {
            "agora could not start a worker"
        }
        (_, FailureCode::WorkerLost) => "the worker is gone",
        (FailureReason::WorkerFailed, _) => "what surrounds the agent failed",
        (FailureReason::ProviderFailed, _) => "the agent failed",
    };
    format!("{half} ({}, {})", failure.reason, failure.code)
}

/// What to try, by what a person would otherwise search for.
fn hints(result: &DispatchResult, failure: &Failure) -> Vec<String> {
    let id = &result.dispatch_id;
    // What the worker knows of the very case comes before what is true of the code.
    let mut hints: Vec<String> = failure.hint.iter().cloned().collect();
    match &failure.code {
        FailureCode::Auth | FailureCode::AgentExit | FailureCode::ProviderUnavailable
            if result.auth.is_none() && credential(result).is_some() =>
        {
            hints = no_credential(result);
        }
        FailureCode::RateLimited => hints.extend(failure.retry_at.map(|at| {
            format!("the limit ends at {at}; then `agora continue {id}` goes on, and what is detached goes on by itself")
        })),
        FailureCode::HashMismatch | FailureCode::BundleMalformed => {
            hints.push(
                "the store was written to or is damaged: look at the disk and at who may write to `$AGORA_HOME`"
                    .to_owned(),
            );
            hints.push("`agora doctor` finds what else is altered; registering the same content again mends it".to_owned());
        }
        FailureCode::SetupFailed => {
            hints.push(format!("`agora logs {id} --part setup` shows what the script printed"));
        }
        FailureCode::WorkerLost => {
            hints.push(format!("`agora continue {id}` starts again from what was kept"));
        }
        FailureCode::WorkerNotStarted | FailureCode::ComputeUnreachable => {
            hints.push(format!("`agora doctor` looks at this machine; then `agora continue {id}` tries again"));
        }
        FailureCode::ImageMissing => {
            hints.push(format!("`agora image build` makes one; then `agora continue {id}` tries again"));
        }
        FailureCode::AgentExit if result.person.is_some() => {
            hints.push(format!("the work is kept: `agora takeover {id}` goes back to it, `agora continue {id}` goes on without you"));
        }
        FailureCode::TimeLimit if result.started_at.is_none() => hints.push(
            "`agora ls --live` shows what runs; `max_concurrent` in `agora.toml` makes more room".to_owned(),
        ),
        FailureCode::TimeLimit => {
            hints.push(format!("`agora continue {id}` goes on with as much time again"));
        }
        _ => {}
    }
    let printed = result.started_at.is_some() && result.person.is_none();
    if failure.reason == FailureReason::ProviderFailed && printed {
        hints.push(format!("`agora logs {id}` shows what the agent printed"));
    }
    if changed(result) > 0 && result.workspace.is_some() {
        let patch = result.patch.as_ref().map(change).unwrap_or_default();
        hints.push(format!(
            "what it did until then is kept, {patch}: `agora apply {id}` brings it into your files"
        ));
    }
    hints
}

fn env(result: &DispatchResult) -> String {
    let names: Vec<String> = result.resolved.env.iter().map(|env| format!("`{}`", env.name)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns the variable that a runtime wants first. Of other runtimes nobody knows.
fn credential(result: &DispatchResult) -> Option<&'static str> {
    match result.versions.adapter.as_str() {
        "claude-code" => Some("ANTHROPIC_API_KEY"),
        "codex" => Some("OPENAI_API_KEY"),
        _ => None,
    }
}

fn no_credential(result: &DispatchResult) -> Vec<String> {
    let variable = credential(result).unwrap_or_default();
    let (bundle, there) = match result.resolved.env.last() {
        Some(env) => (env.name.to_string(), format!("`agora env get {}` shows what it holds", env.name)),
        None => ("default".to_owned(), "no env bundle was used".to_owned()),
    };
    vec![
        format!("the agent had no credential (env: {}): {there}", env(result)),
        format!("`agora env register --name {bundle} --secret {variable}=env:{variable}` gives it one"),
    ]
}

/// Says which files are not there because of others: a setup script that never ran looks like one that failed.
fn dropped(result: &DispatchResult) -> Vec<String> {
    let lines = result.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let said = lines.filter(|line| line["kind"] == "overlay.dropped").map(|line| {
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let (path, winner, loser) = (word("path"), word("winner"), word("loser"));
        if path == "agora-setup.sh" {
            format!(
                "the `agora-setup.sh` of `{loser}` did not run: that of `{winner}` took its place; only one runs, so put both into one capability"
            )
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

/// Says what became of a question that is not open any more.
fn closed(state: QuestionState) -> Option<&'static str> {
    match state {
        QuestionState::Asked | QuestionState::Open => None,
        QuestionState::Answered => Some("which was answered; `agora thread show` tells how it went on"),
        QuestionState::Declined => Some("which was declined: its thread has ended"),
        QuestionState::Stale => Some("which was ended: what it rested on had changed"),
        QuestionState::Expired => Some("which expired; `agora thread show` tells what followed"),
        QuestionState::Cancelled => Some("which was cancelled"),
    }
}

/// Tells everything that is known, for `agora show`.
pub(crate) fn whole(result: &DispatchResult) -> String {
    let mut lines = vec![
        format!("dispatch:    {}", result.dispatch_id),
        format!("thread:      {}", result.thread_id),
        format!("state:       {}", result.state),
        format!("subagent:    {}@{}", result.subagent, result.resolved.subagent.content_hash),
        match &result.isolation {
            Some(wall) => format!("target:      {} (isolation: {})", result.target, wall.level),
            None => format!("target:      {}", result.target),
        },
        format!("accepted:    {}", result.accepted_at),
    ];
    lines.extend(result.person.as_ref().map(|person| format!("person:      {person} took it over")));
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
    let left_out = result.workspace.as_ref().and_then(|workspace| left_out::named(&workspace.ground));
    lines.extend(left_out.map(|named| format!("left out:    {named}")));
    lines.extend(result.auth.as_ref().map(|auth| {
        let from = result.auth_from.map(|from| format!(", {}", from.place())).unwrap_or_default();
        format!("credential:  {auth}{from}")
    }));
    lines.extend(result.usage.as_ref().map(|usage| {
        let cost = usage.cost_usd.map(|usd| format!(", ${usd:.4}")).unwrap_or_default();
        let turns = counted(usize::try_from(usage.turns).unwrap_or(usize::MAX), "turn");
        format!("used:        {turns}, {} tokens{cost}", usage.tokens())
    }));
    lines.extend(result.patch.as_ref().filter(|patch| patch.files > 0).map(|patch| {
        format!("patch:       {}; `agora logs {} --part patch`", change(patch), result.dispatch_id)
    }));
    lines.extend(result.verify.as_ref().map(|verify| {
        format!(
            "verify:      {} in {}",
            if verify.passed { "passed" } else { "failed" },
            span(verify.duration_ms)
        )
    }));
    lines.extend(result.failure.iter().flat_map(|failure| {
        [format!("failed:      {}", half(failure)), format!("because:     {}", failure.detail)]
            .into_iter()
            .chain(hints(result, failure).into_iter().map(|hint| format!("hint:        {hint}")))
    }));
    if let Some(asked) = &result.needs_input {
        lines.push(match closed(asked.state) {
            None => format!("asks:        {}", asked.question_id),
            Some(how) => format!("asked:       {}, {how}", asked.question_id),
        });
        let whole = asking::whole(&asked.asked).into_iter().chain(asking::changes(&asked.stale));
        lines.extend(whole.map(|line| format!("  {line}").trim_end().to_owned()));
    }
    if let Some(kept) = &result.kept_question {
        lines.push(format!("kept:        {KEPT}"));
        lines.extend(asking::whole(&kept.asked).iter().map(|line| format!("  {line}").trim_end().to_owned()));
    }
    lines.extend(
        result
            .warnings
            .iter()
            .cloned()
            .chain(dropped(result))
            .map(|warning| format!("warning:     {warning}")),
    );
    let words = words(result);
    if !words.is_empty() {
        lines.push(format!("\n{}", words.trim_end()));
    }
    lines.join("\n") + "\n"
}
