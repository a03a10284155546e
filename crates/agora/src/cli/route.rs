//! `agora route`: what would happen to a question, and what holds for one.

use agora_core::Name;
use agora_core::route::{AtEnd, IfStale, Match, Party, PartyKind, Route as Rule, Routes, Step};
use agora_core::state::AskedQuestion;
use agora_engine::QuestionStory;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::dispatch::{open, span};
use super::{Context, parse};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::person;
use crate::plain::plain;

/// See which way questions go
#[derive(Debug, Subcommand)]
pub(super) enum Route {
    /// Show which route a question takes, and what happens on it when
    #[command(
        after_help = "Examples:\n  agora route test --subagent planner --label nightly\n  agora route test q_7f3k          # the terms of a question that was asked"
    )]
    Test(Test),
}

#[derive(Debug, Args)]
pub(super) struct Test {
    /// A question that was asked, by its id or its thread's or dispatch's; else a question that could be
    #[arg(value_name = "QUESTION", conflicts_with_all = ["subagent", "label", "header"])]
    id: Option<String>,
    /// The subagent that would ask
    #[arg(long, value_name = "NAME", value_parser = parse::<Name>)]
    subagent: Option<Name>,
    /// A label of its dispatch; may be given again
    #[arg(long, value_name = "LABEL", value_parser = parse::<Name>)]
    label: Vec<Name>,
    /// A header of the question; may be given again
    #[arg(long, value_name = "TEXT")]
    header: Vec<String>,
}

impl Route {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::Test(test) => test.run(context).await,
        }
    }
}

impl Test {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(id) = &self.id {
            return asked(context, id).await;
        }
        let agora = context.config.dispatching()?;
        let routes = agora.routes();
        let anything = || "anything".parse::<Name>().map_err(|error| Failure::bug(error.to_string()));
        let subagent = self.subagent.clone().map_or_else(anything, Ok)?;
        let headers = self.header.iter().map(String::as_str);
        let found = routes.matching(&subagent, &self.label, headers);
        let owner = person::at_the_terminal().principal;
        let document = match found {
            Some((place, rule)) => document(place, rule, routes, &owner),
            None => json!({"route": null, "mayAnswer": [owner], "steps": [], "expires": null}),
        };
        let lines = match found {
            Some((place, rule)) => story(place, rule, routes, &owner),
            None => vec![
                "no route matches".to_owned(),
                format!("may answer:  {owner}, who dispatches it"),
                "then:        it waits, for as long as it takes".to_owned(),
            ],
        };
        context.ui.result(|| &document, || lines.join("\n") + "\n")?;
        agora.settings_warnings().iter().for_each(|warning| context.ui.warn(warning));
        if let Some(ignored) =
            agora.ignored_settings().filter(|ignored| ignored.keys.iter().any(|key| key == "route"))
        {
            context.ui.warn(format_args!(
                "the routes of `{}` are ignored: it is not trusted; `agora trust` lets them count",
                ignored.file.display()
            ));
        }
        Ok(Exit::Done)
    }
}

/// Shows the terms of a question that was asked.
async fn asked(context: &Context, id: &str) -> Result<Exit, Failure> {
    let agora = open(context).await?;
    let thread = agora.find(id).await?;
    let view = thread.view().await?;
    let own = thread.dispatch_id().as_str().replacen("d_", "q_", 1);
    let questions = view.thread.questions();
    let meant = questions.iter().find(|asked| id.starts_with("q_") && asked.id.as_str() == own);
    let Some(asked) = meant.or(questions.last()) else {
        return Err(Failure::wrong("nothing-asked", format!("`{id}` has asked nothing"))
            .hint("`agora inbox` shows what is open"));
    };
    let story = thread.story().await?.questions.into_iter().find(|story| story.question_id == asked.id);
    let story = story.ok_or_else(|| Failure::bug(format!("`{}` is asked, and has no story", asked.id)))?;
    context.ui.result(|| &story, || terms(asked, &story).join("\n") + "\n")?;
    Ok(Exit::Done)
}

fn terms(asked: &AskedQuestion, story: &QuestionStory) -> Vec<String> {
    let (terms, progress) = (&asked.terms, &asked.progress);
    let mut lines = vec![format!("question:    {} ({})", asked.id, story.state)];
    lines.push(format!("may answer:  {}", who(&terms.may_answer, "any person")));
    for (number, step) in (0_u32..).zip(&terms.steps) {
        let outcome = story.route.iter().find(|routed| routed.step == number);
        let stands = match outcome {
            Some(routed) => format!(": {}", json!(routed.outcome).as_str().unwrap_or_default()),
            None if number == progress.step && story.state == "open" => ": it is here".to_owned(),
            None => String::new(),
        };
        lines.push(format!("step {}:      {}{stands}", number + 1, said(step)));
    }
    if let Some(at) = progress.remind_at.filter(|_| story.state == "open") {
        lines.push(format!("reminds:     at {at}, after {} so far", progress.reminders));
    }
    if let Some(at) = progress.escalate_at.filter(|_| story.state == "open") {
        lines.push(format!("escalates:   at {at}"));
    }
    lines.push(match terms.expiry {
        None => "expires:     never".to_owned(),
        Some(expiry) => format!("expires:     at {}: {}", expiry.at, end(expiry.then)),
    });
    lines.push(format!("if stale:    {}", moved(terms.if_stale)));
    lines
}

fn document(place: usize, rule: &Rule, routes: &Routes, owner: &str) -> Value {
    let entitled = may_answer(rule, owner);
    let groups = routes.groups.iter().map(|(party, members)| (party.to_string(), json!(members)));
    let members: serde_json::Map<String, Value> =
        groups.filter(|(party, _)| entitled.contains(party)).collect();
    json!({
        "route": place + 1,
        "match": rule.matches,
        "steps": rule.steps,
        "mayAnswer": entitled,
        "members": members,
        "remindAfterMs": rule.remind_after_ms,
        "escalateAfterMs": rule.escalate_after_ms,
        "expires": rule.expires.map(|(after, then)| json!({"afterMs": after, "then": then})),
        "ifStale": rule.if_stale,
    })
}

/// Tells step by step what would happen.
fn story(place: usize, rule: &Rule, routes: &Routes, owner: &str) -> Vec<String> {
    let mut lines = vec![format!("route {} matches: {}", place + 1, matched(&rule.matches))];
    let entitled = may_answer(rule, owner);
    lines.push(format!("may answer:  {}", entitled.join(", ")));
    for (party, members) in &routes.groups {
        if entitled.contains(&party.to_string()) {
            lines.push(format!("             {party} is {}", who(members, "nobody")));
        }
    }
    let escalate = rule.escalate_after_ms.map(span).unwrap_or_default();
    let steps = rule.steps.as_slice();
    for (number, step) in (1..).zip(steps) {
        let then = match step {
            Step::Command(command) => format!("within {}, else the next step", span(command.timeout_ms)),
            Step::Inbox(_) if number < steps.len() => format!("for {escalate}, then the next step as well"),
            Step::Inbox(_) => "for as long as it is open".to_owned(),
        };
        lines.push(format!("step {number}:      {}, {then}", said(step)));
        if let Step::Inbox(party) = step
            && !entitled.contains(&party.to_string())
            && party.kind() == PartyKind::Group
        {
            lines.push(format!("             note: {party} is not in `may_answer`"));
        }
    }
    if let Some(first) = rule.remind_after_ms {
        lines.push(format!(
            "reminds:     after {}, then each time after twice as long, up to 7 days",
            span(first)
        ));
    }
    lines.push(match rule.expires {
        None => "expires:     never; it waits".to_owned(),
        Some((after, then)) => format!("expires:     after {}: {}", span(after), end(then)),
    });
    lines.push(format!("if stale:    {}", moved(rule.if_stale)));
    lines
}

fn may_answer(rule: &Rule, owner: &str) -> Vec<String> {
    let brought = rule.steps.as_slice().iter().filter_map(|step| match step {
        Step::Inbox(party) => Some(party),
        Step::Command(_) => None,
    });
    let parties: Vec<String> = match rule.may_answer.as_slice() {
        [] => brought.map(ToString::to_string).collect(),
        named => named.iter().map(ToString::to_string).collect(),
    };
    if parties.is_empty() { vec![owner.to_owned()] } else { parties }
}

fn matched(matches: &Match) -> String {
    let parts = [
        matches.subagent.as_ref().map(|name| format!("subagent {name}")),
        matches.label.as_ref().map(|label| format!("label {label}")),
        matches.header.as_ref().map(|header| format!("header {}", plain(header))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "every question".to_owned() } else { parts.join(", ") }
}

fn said(step: &Step) -> String {
    match step {
        Step::Command(command) => format!("asks `{}`", command.argv.join(" ")),
        Step::Inbox(party) => format!("shows it to {party}"),
    }
}

fn end(then: AtEnd) -> &'static str {
    match then {
        AtEnd::Fail => "the thread fails (question-expired)",
        AtEnd::UseDefault => {
            "goes on with the default that the asker named; waits where an item has none, or is for people"
        }
    }
}

/// Says what happens to an answer when what the question rested on has changed.
fn moved(if_stale: IfStale) -> &'static str {
    match if_stale {
        IfStale::Show => "whoever answers sees what has changed, and the answer counts",
        IfStale::AskAgain => "whoever answers sees what has changed, and is asked again; no command answers",
        IfStale::Fail => "the thread fails (question-stale), with the first answer; no command answers",
    }
}

fn who(parties: &[Party], nobody: &str) -> String {
    let names: Vec<String> = parties.iter().map(ToString::to_string).collect();
    if names.is_empty() { nobody.to_owned() } else { names.join(", ") }
}
