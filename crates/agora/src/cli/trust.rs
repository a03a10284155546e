//! `agora trust`: which project's `agora.toml` may say what only a person may.

use std::path::PathBuf;

use agora_engine::{Standing, TrustedProject};
use clap::Args;
use serde_json::{Value, json};

use super::Context;
use crate::failure::Failure;
use crate::table::Table;
use crate::ui::path_text;

/// Trust a project's agora.toml, as it is now
#[derive(Debug, Args)]
#[command(
    long_about = "Trust a project's agora.toml, as it is now.\n\nWithout trust a project's file can only make things stricter. What starts a command, loosens isolation, grants a path, names a destination or an image, or says who may answer counts only from your own file, or from one that you trust. Read it first. When it is changed, it is not trusted any more.",
    after_help = "Examples:\n  agora trust\n  agora trust ~/src/project\n  agora trust --list\n  agora trust --revoke"
)]
pub(super) struct Trust {
    /// The project, or a directory in it
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// List what is trusted
    #[arg(long, conflicts_with_all = ["revoke", "dir"])]
    list: bool,
    /// Trust it no more
    #[arg(long)]
    revoke: bool,
}

impl Trust {
    pub(super) fn run(self, context: &Context) -> Result<(), Failure> {
        let around = &context.config.around;
        if self.list {
            return list(context, around.trusted()?);
        }
        if self.revoke {
            let (file, was) = around.distrust(&self.dir)?;
            let shown = file.display();
            return context.ui.result(
                || json!({"file": path_text(&file), "revoked": was}),
                || {
                    if was {
                        format!("not trusted any more: {shown}\n")
                    } else {
                        format!("it was not trusted: {shown}\n")
                    }
                },
            );
        }
        let TrustedProject { file, hash, keys } = around.trust(&self.dir)?;
        context.ui.result(
            || json!({"file": path_text(&file), "contentHash": hash, "keys": keys}),
            || format!("trusted: {}\n", file.display()),
        )?;
        context.ui.note(match keys.as_slice() {
            [] => "nothing in it needed that: it only makes things stricter".to_owned(),
            keys => format!("these keys of it count now: {}", keys.join(", ")),
        });
        context.ui.hint("`agora trust --revoke` takes it back; a change of the file does too");
        Ok(())
    }
}

fn list(context: &Context, trusted: Vec<(PathBuf, Standing)>) -> Result<(), Failure> {
    let word = |standing: Standing| match standing {
        Standing::AsItWas => "trusted",
        Standing::Changed => "changed",
        Standing::Gone => "gone",
    };
    let json = || {
        let one = |(file, standing): &(PathBuf, Standing)| json!({"file": path_text(file), "state": word(*standing)});
        let all = trusted.iter().map(one);
        all.collect::<Vec<Value>>()
    };
    context.ui.result(json, || {
        let mut table = Table::new(["STATE", "FILE"]);
        trusted
            .iter()
            .for_each(|(file, standing)| table.row([word(*standing).to_owned(), file.display().to_string()]));
        if trusted.is_empty() { String::new() } else { table.text() }
    })?;
    if trusted.is_empty() {
        context.ui.note("nothing is trusted");
    }
    Ok(())
}
