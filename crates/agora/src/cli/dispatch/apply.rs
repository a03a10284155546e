//! `agora apply`: brings a thread's work into the tree that it was taken from.

use agora_engine::{AppliedWork, ApplyTo, OnSight};
use clap::Args;
use serde_json::json;

use super::{find, open};
use crate::cli::{Context, counted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::ui;

/// Bring a thread's work into your own tree
#[derive(Debug, Args)]
#[command(
    long_about = "Bring a thread's work into the tree that it was taken from: the files of the working tree, merged three ways with what you changed meanwhile, all or nothing. The index stays as it is. Hooks of the repository do not run.\n\nFiles that tools act upon as soon as they are there, such as `.envrc`, `.vscode/` or workflows, and links that lead out of the tree are named first and want `--yes`. Files in which a secret was hidden are not what the agent wrote, and are skipped.",
    after_help = "Examples:\n  agora apply @\n  agora apply t_7f3k --branch fix-parser\n  agora apply @ --patch | git apply --stat\n  agora dispatch apply @ --commit"
)]
pub(in crate::cli) struct Apply {
    /// A dispatch, thread or question id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID", default_value = "@")]
    id: String,
    /// Make a branch of it, with the agent's own commits; nothing else changes
    #[arg(long, value_name = "NAME", group = "to")]
    branch: Option<String>,
    /// Commit it on the branch that is checked out
    #[arg(long, group = "to")]
    commit: bool,
    /// Print it as a patch, and change nothing
    #[arg(long, group = "to")]
    patch: bool,
    /// Also files that tools act upon as soon as they are there, and links that lead out of the tree
    #[arg(long)]
    yes: bool,
}

impl Apply {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let thread = find(&agora, &self.id).await?;
        if self.patch {
            let patch = agora.work_patch(thread.id()).await?;
            patch.warnings.iter().for_each(|warning| context.ui.warn(warning));
            match context.ui.form() {
                ui::Form::Text => ui::print_bytes(&patch.bytes)?,
                ui::Form::Json => context.ui.result(
                    || json!({"threadId": thread.id(), "patch": String::from_utf8_lossy(&patch.bytes), "warnings": patch.warnings}),
                    String::new,
                )?,
            }
            return Ok(Exit::Done);
        }
        let to = match (self.branch, self.commit) {
            (Some(name), _) => ApplyTo::Branch(name),
            (None, true) => ApplyTo::Commit,
            (None, false) => ApplyTo::WorkingTree,
        };
        let on_sight = if self.yes { OnSight::Take } else { OnSight::Refuse };
        let stop = interrupt::noted()?;
        let applied = agora.apply_work(thread.id(), to.clone(), on_sight, &stop).await?;
        if !applied.skipped.is_empty() {
            let names = applied.skipped.join("`, `");
            context.ui.warn(format_args!("skipped, because a secret is hidden in it: `{names}`"));
        }
        for warning in &applied.warnings {
            context.ui.warn(warning);
        }
        context.ui.result(
            || {
                json!({
                    "threadId": thread.id(), "files": applied.files, "skipped": applied.skipped,
                    "commit": applied.commit, "branch": applied.branch, "warnings": applied.warnings
                })
            },
            || format!("{} {}\n", counted(applied.files.len(), "file"), place(&to, &applied)),
        )?;
        Ok(Exit::Done)
    }
}

/// Says where the work is now.
fn place(to: &ApplyTo, applied: &AppliedWork) -> String {
    match (to, &applied.branch, &applied.commit) {
        (ApplyTo::WorkingTree, _, _) if applied.there_already => {
            "in the working tree already: nothing was changed".to_owned()
        }
        (ApplyTo::WorkingTree, _, _) => "in the working tree".to_owned(),
        (ApplyTo::Branch(name), _, _) => format!("in the branch `{name}`"),
        (ApplyTo::Commit, Some(branch), _) => format!("in a commit on `{branch}`"),
        (ApplyTo::Commit, None, Some(_)) => {
            "in a commit on a detached HEAD: `git switch -c NAME` gives it a branch".to_owned()
        }
        (ApplyTo::Commit, None, None) => "committed already: there is nothing new in it".to_owned(),
    }
}
