//! `agora protocol check`: whether a thread's pauses did what the user input protocol asks for, and what proves it.

use agora_engine::{Calls, Checked, CheckedPause, Checklist, Evidence, Point, Verdict};
use clap::{Args, Subcommand};

use super::dispatch::open;
use super::{Context, counted};
use crate::exit::Exit;
use crate::failure::Failure;

/// Check pauses against the user input protocol
#[derive(Debug, Subcommand)]
pub(super) enum Protocol {
    /// Check every pause of a thread, from what is recorded of it
    #[command(
        long_about = "Check every pause of a thread, from what is recorded of it: was the state saved, was it said why, did each option say what it implies, could the pause be seen, stands the answer beside the state, was anything redone, does it survive a restart.\n\nEach point has passed, failed, does not apply, or cannot be proven from the records. Ends with 1 when one failed.",
        after_help = "Examples:\n  agora protocol check @\n  agora protocol check t_7f3k --json"
    )]
    Check(Check),
}

#[derive(Debug, Args)]
pub(super) struct Check {
    /// A dispatch, thread or question id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "THREAD", default_value = "@")]
    thread: String,
}

impl Protocol {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Self::Check(check) = self;
        let agora = open(context).await?;
        let thread = agora.find(&check.thread).await?;
        let checklist = agora.check_protocol(thread.id()).await?;
        let passed = checklist.passed();
        let document = || serde_json::json!({"threadId": checklist.thread_id, "passed": passed, "pauses": checklist.pauses});
        context.ui.result(document, || text(&checklist))?;
        Ok(if passed { Exit::Done } else { Exit::Failed })
    }
}

fn text(checklist: &Checklist) -> String {
    let pause = |pause: &CheckedPause| {
        let line = |Checked { point: about, verdict: how, evidence: why }: &Checked| {
            format!("{:<9} {:<18}  {}\n", verdict(*how), point(*about), evidence(why))
        };
        let lines: String = pause.points.iter().map(line).collect();
        format!("{}\n{lines}", pause.question_id)
    };
    checklist.pauses.iter().map(pause).collect::<Vec<_>>().join("\n")
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::NotApplicable => "-",
        Verdict::Unproven => "unproven",
    }
}

fn point(point: Point) -> &'static str {
    match point {
        Point::StateSaved => "state saved",
        Point::ContextGiven => "context given",
        Point::OptionsImply => "options imply",
        Point::PauseSeen => "pause seen",
        Point::QuestionKept => "question kept",
        Point::AnswerKept => "answer kept",
        Point::BothGivenBack => "both given back",
        Point::NothingRedone => "nothing redone",
        Point::RestartSurvived => "survives a restart",
        _ => "more",
    }
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn evidence(evidence: &Evidence) -> String {
    match evidence {
        Evidence::State { entries, workspace, session } => format!(
            "the partial state has {}; workspace sealed: {}; session sealed: {}",
            match entries {
                0 => "nothing in it".to_owned(),
                1 => "1 entry".to_owned(),
                more => format!("{more} entries"),
            },
            yes(*workspace),
            yes(*session)
        ),
        Evidence::Context { characters: 0 } => "it does not say why it is asked".to_owned(),
        Evidence::Context { characters } => format!("it says why, in {}", counted(*characters, "character")),
        Evidence::Options { options, implied, fewest } => {
            let choice = if *fewest < 2 { "; one option is no choice" } else { "" };
            format!("{implied} of {} say what they imply{choice}", counted(*options, "option"))
        }
        Evidence::FreeText => "the answer is free text".to_owned(),
        Evidence::Pause { asked_seq, opened_seq: Some(opened) } => {
            format!("dispatch.needs_input is entry {asked_seq}, question.opened entry {opened}")
        }
        Evidence::Pause { asked_seq, opened_seq: None } => {
            format!("dispatch.needs_input is entry {asked_seq}, and the question was never opened")
        }
        Evidence::Question { hash, same: true } => {
            format!("read from the ledger, with the hash it was opened with: {hash}")
        }
        Evidence::Question { hash, same: false } => {
            format!("what is read has another hash than it was opened with: {hash}")
        }
        Evidence::Answer { answered_seq, accepted_seq, ends, receipt } => format!(
            "stored as entry {answered_seq}, {}; receipt: {}",
            match accepted_seq {
                Some(seq) => format!("before dispatch.accepted, entry {seq}"),
                None if *ends => "and it ended the thread".to_owned(),
                None => "and nothing followed".to_owned(),
            },
            match receipt {
                Some(true) => "verified",
                Some(false) => "NOT genuine",
                None => "none",
            }
        ),
        Evidence::Unanswered { state } => format!("the question is {state}"),
        Evidence::Underway { dispatch_id } => format!("{dispatch_id} has not ended yet"),
        Evidence::GivenBack { dispatch_id, after, with } => format!(
            "{dispatch_id} began {}; workspace: {}, partial state: {}, session resumed: {}",
            after.as_ref().map_or_else(|| "from nothing".to_owned(), |id| format!("from what {id} left")),
            yes(with.workspace),
            yes(with.partial_state),
            yes(with.session)
        ),
        Evidence::Work { workspace, session, turns, calls, .. } => work(*workspace, *session, *turns, *calls),
        Evidence::Restart { entries, same, sealed } => format!(
            "{} read anew {} the same state{}",
            match entries {
                1 => "1 entry".to_owned(),
                more => format!("{more} entries"),
            },
            if *same { "give" } else { "DO NOT give" },
            match sealed {
                Some(true) => "; the sealed workspace is there",
                Some(false) => "; the sealed workspace is GONE",
                None => "",
            }
        ),
        _ => String::new(),
    }
}

fn work(workspace: bool, session: bool, turns: Option<u64>, calls: Option<Calls>) -> String {
    let mut parts = vec![if workspace { "in the same tree" } else { "in another tree" }.to_owned()];
    if session {
        parts.push("with its own session".to_owned());
    }
    parts.extend(turns.map(|turns| {
        format!("{} after it", counted(usize::try_from(turns).unwrap_or(usize::MAX), "model turn"))
    }));
    parts.push(match calls {
        Some(Calls { after, repeated: 0, .. }) => {
            format!("{}, none of them one from before", counted(after, "tool call"))
        }
        Some(Calls { after, repeated, .. }) => format!(
            "{repeated} of {} as before; whether that was needed cannot be proven from the records",
            counted(after, "tool call")
        ),
        None if session => "what it did is not in its stream".to_owned(),
        None => "what it did inside cannot be proven from the records".to_owned(),
    });
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_told_with_what_can_be_looked_up() {
        let told = [
            Evidence::State { entries: 3, workspace: true, session: false },
            Evidence::Options { options: 3, implied: 2, fewest: 3 },
            Evidence::Answer { answered_seq: 9, accepted_seq: Some(10), ends: false, receipt: Some(true) },
            Evidence::Work {
                dispatch_id: "d_2".parse().unwrap(),
                workspace: true,
                session: true,
                turns: Some(2),
                calls: Some(Calls { before: 4, after: 1, repeated: 0 }),
            },
            Evidence::Unanswered { state: "open" },
            Evidence::Restart { entries: 9, same: true, sealed: Some(true) },
        ]
        .map(|one| evidence(&one));
        insta::assert_snapshot!(told.join("\n"), @r"
        the partial state has 3 entries; workspace sealed: yes; session sealed: no
        2 of 3 options say what they imply
        stored as entry 9, before dispatch.accepted, entry 10; receipt: verified
        in the same tree; with its own session; 2 model turns after it; 1 tool call, none of them one from before
        the question is open
        9 entries read anew give the same state; the sealed workspace is there
        ");
    }
}
