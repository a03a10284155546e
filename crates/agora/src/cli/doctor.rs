//! `agora doctor`: what this machine can do.

use agora_engine::{Agora, Health, Unused, last_trouble};
use clap::Args;

use super::{Context, counted};
use crate::doctor::{self, Finding, Status, notify};
use crate::exit::Exit;
use crate::failure::Failure;

/// What settings are called.
const SETTINGS: &str = "settings";

/// See what this machine can do, and what is missing
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  agora doctor\n\nOne line each: ok, note, missing or broken, and what mends it.\nEnds with 3 when something is broken."
)]
pub(super) struct Doctor {}

impl Doctor {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        // A home that cannot be read is a finding of its own, not a reason to say nothing.
        let agora = context.config.agora();
        let names = agora.secret_names().await.unwrap_or_default();
        let stored = names.iter().map(ToString::to_string).filter(|name| name.starts_with("auth/"));
        let mut findings = doctor::examine(&context.config.surroundings(stored.collect()));
        let (bundles, secrets) = (agora.check_bundles().await, agora.check_secrets().await);
        let (settings, recorded) = settings(context);
        // Right after the home that they are kept in.
        let stored = [Some(kept("bundles", "bundle", bundles)), Some(kept("secrets", "secret", secrets))];
        findings
            .splice(1..1, stored.into_iter().chain([ledger(recorded.as_ref()).await, settings]).flatten());
        // That settings cannot be used has been found above.
        if let Ok(ways) = context.config.notify_ways() {
            let (desktop, config) = (context.config.desktop(), &context.config);
            let trouble = last_trouble(config.home());
            findings.extend(notify::examine(
                &ways,
                desktop,
                |name| config.has_program(name),
                trouble.as_ref(),
            ));
        }
        findings.extend(open(context));
        findings.extend(timers(recorded.as_ref()).await);
        context.ui.result(|| &findings, || findings.iter().map(line).collect())?;
        let broken = findings.iter().any(|finding| finding.status == Status::Broken);
        Ok(if broken { Exit::Outside } else { Exit::Done })
    }
}

/// Says what keeps the settings from being used, and opens agora on what is recorded, with them or without. Nothing to open: nothing
/// is recorded, and looking must not make a ledger where there is none.
fn settings(context: &Context) -> (Option<Finding>, Option<Agora>) {
    let (found, agora) = match context.config.dispatching() {
        Ok(agora) => (unused(&agora), Some(agora)),
        Err(failure) => {
            let fix = Some("mend it: commands about dispatches do not work before".to_owned());
            let broken =
                Finding { topic: SETTINGS, status: Status::Broken, detail: failure.in_a_line(), fix };
            (Some(broken), context.config.without_settings().ok())
        }
    };
    (found, agora.filter(|_| context.config.home().join("ledger.sqlite").is_file()))
}

/// Says that a project's file is not used: one that is another user's never is, and with one that cannot be read nothing runs there.
fn unused(agora: &Agora) -> Option<Finding> {
    let Unused { file, why, is_foreign } = agora.unused_settings()?;
    let detail = format!("`{}` is not used: {why}", file.display());
    let (status, fix) = match is_foreign {
        true => (Status::Note, "run agora elsewhere, or make the file yours".to_owned()),
        false => (Status::Broken, "mend it: no agent runs there before".to_owned()),
    };
    Some(Finding { topic: SETTINGS, status, detail, fix: Some(fix) })
}

/// Says whether what is recorded can be read, if anything is.
async fn ledger(recorded: Option<&Agora>) -> Option<Finding> {
    Some(kept("ledger", "thread", recorded?.check_ledger().await))
}

/// Says which targets use none of the wall that can be built.
fn open(context: &Context) -> Option<Finding> {
    let targets = context.config.targets_without_wall().ok()?;
    let names: Vec<String> = targets.iter().map(|name| format!("`target.{name}`")).collect();
    let detail =
        format!("{} has `isolation = \"none\"`: its agents may do whatever you may", names.join(", "));
    let fix = Some("`isolation = \"auto\"` in your `agora.toml` puts them behind the wall".to_owned());
    (!names.is_empty()).then_some(Finding { topic: "isolation", status: Status::Note, detail, fix })
}

/// Says whether anybody turns the timers that are set, if there are any.
async fn timers(recorded: Option<&Agora>) -> Option<Finding> {
    let agora = recorded?;
    let next = agora.next_timer().await.ok()??;
    let topic = "timers";
    if agora.is_served() {
        let detail = format!("`agora serve` runs, and turns the next one at {next}");
        return Some(Finding { topic, status: Status::Ok, detail, fix: None });
    }
    let detail = format!("one is set for {next}, and nobody turns it by then but a command about dispatches");
    Some(Finding { topic, status: Status::Note, detail, fix: Some("agora serve".to_owned()) })
}

/// Says whether everything of a sort is still what was stored; when not, with what, and what mends the first of them.
fn kept(topic: &'static str, thing: &str, health: Health) -> Finding {
    let others = health.problems.len().saturating_sub(1);
    match health.problems.into_iter().next() {
        None => {
            let detail = format!("{} looked at, each is what was stored", counted(health.looked_at, thing));
            Finding { topic, status: Status::Ok, detail, fix: None }
        }
        Some((what, error)) => {
            let failure = Failure::from(error);
            let why = failure.causes.last().unwrap_or(&failure.message);
            let more = if others == 0 { String::new() } else { format!(", and {others} more") };
            let detail = format!("{what} cannot be used: {why}{more}");
            Finding { topic, status: Status::Broken, detail, fix: failure.hints.into_iter().next() }
        }
    }
}

fn line(finding: &Finding) -> String {
    let status = match finding.status {
        Status::Ok => "ok",
        Status::Note => "note",
        Status::Missing => "missing",
        Status::Broken => "broken",
    };
    let fix = finding.fix.as_ref().map(|fix| {
        let lines: Vec<&str> = fix.lines().collect();
        format!("{:20}{}\n", "", lines.join(&format!("\n{:20}", "")))
    });
    format!("{status:<8} {:<10} {}\n{}", finding.topic, finding.detail, fix.unwrap_or_default())
}
