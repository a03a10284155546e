//! `agora doctor`: what this machine can do.

use clap::Args;

use super::Context;
use crate::doctor::{self, Finding, Status};
use crate::exit::Exit;
use crate::failure::Failure;

/// See what this machine can do, and what is missing
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  agora doctor\n\nOne line each: ok, note, missing or broken, and what mends it.\nEnds with 3 when something is broken."
)]
pub(super) struct Doctor {}

impl Doctor {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        // A home that cannot be read is a finding of its own, not a reason to say nothing.
        let names = context.config.agora().secret_names().await.unwrap_or_default();
        let stored = names
            .iter()
            .filter(|name| name.as_str().starts_with("auth/"))
            .map(|name| format!("local:{name}"));
        let findings = doctor::examine(&context.config.surroundings(stored.collect()));
        context.ui.result(|| &findings, || findings.iter().map(line).collect())?;
        let broken = findings.iter().any(|finding| finding.status == Status::Broken);
        Ok(if broken { Exit::Outside } else { Exit::Done })
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
