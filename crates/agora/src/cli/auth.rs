//! `agora auth`: what an agent logs in with, stored for every dispatch.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::Command;

use agora_core::bundle::VariableName;
use agora_core::login::{CLAUDE, Vendor};
use agora_core::secret::SecretValue;
use agora_engine::Outside;
use clap::Args;
use serde_json::json;

use super::Context;
use super::dispatch::options::read_secret;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::outside::Terminal;

/// Store what an agent logs in with
#[derive(Debug, Args)]
#[command(
    long_about = "Store what an agent logs in with, encrypted, for every dispatch.\n\nTaken from `--secret`, else from this environment. Without either, on a terminal, `claude setup-token` is run, and the token that it shows is asked for; for codex an API key is. Your own login of claude and codex (`~/.claude`, `~/.codex`, a keychain) is never read, copied or used up.",
    after_help = "Examples:\n  agora auth claude\n  agora auth claude --secret ANTHROPIC_API_KEY=file:key.txt\n  agora auth codex --secret CODEX_API_KEY=stdin < key.txt\n  agora auth claude --remove"
)]
pub(super) struct Auth {
    /// Whose agent: claude or codex
    #[arg(value_parser = parse_vendor)]
    vendor: &'static Vendor,
    /// A variable that it logs in with, as for `env register`; may be given again
    #[arg(long, value_name = "KEY[=SOURCE]")]
    secret: Vec<String>,
    /// Forget what is stored
    #[arg(long, conflicts_with = "secret")]
    remove: bool,
}

fn parse_vendor(text: &str) -> Result<&'static Vendor, String> {
    let known = Vendor::ALL.into_iter().find(|vendor| vendor.name == text);
    known.ok_or_else(|| "it is `claude` or `codex`".to_owned())
}

impl Auth {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (vendor, agora) = (self.vendor, context.config.agora());
        if self.remove {
            let removed = agora.forget_login(vendor).await?;
            context.ui.result(
                || json!({"vendor": vendor.name, "removed": removed}),
                || if removed { "forgotten\n".to_owned() } else { "nothing was stored\n".to_owned() },
            )?;
            return Ok(Exit::Done);
        }
        let values = self.values(context)?;
        let login = agora.store_login(vendor, &values).await?;
        let variables: Vec<&str> = values.keys().map(VariableName::as_str).collect();
        context.ui.result(
            || json!({"vendor": vendor.name, "auth": login.name, "variables": variables}),
            || {
                format!(
                    "stored: {} logs in with its {} ({})\n",
                    vendor.name,
                    login.name,
                    variables.join(", ")
                )
            },
        )?;
        context.ui.hint("it is used where neither the dispatch nor an env bundle brings another");
        Ok(Exit::Done)
    }

    fn values(&self, context: &Context) -> Result<BTreeMap<VariableName, SecretValue>, Failure> {
        if !self.secret.is_empty() {
            return self.secret.iter().map(|secret| read_secret(secret)).collect();
        }
        let set = |name: &str| Terminal.variable(name).is_some();
        let alone = self.vendor.logins.iter().filter(|login| login.stands_alone);
        if let Some(login) = alone.into_iter().find(|login| login.variables.iter().all(|name| set(name))) {
            context.ui.note(format_args!("taking `{}` of this environment", login.variables.join("` and `")));
            let all = login.variables.iter().chain(login.beside).filter(|name| set(name));
            return all.map(|name| read_secret(&format!("{name}=env:{name}"))).collect();
        }
        let login = self.vendor.logins.first().ok_or_else(|| nothing(self.vendor))?;
        if !io::stdin().is_terminal() {
            return Err(nothing(self.vendor));
        }
        if *self.vendor == CLAUDE {
            set_up_token(context)?;
        }
        login.variables.iter().map(|name| read_secret(name)).collect()
    }
}

/// Runs the vendor's own program in this terminal, which logs in with a browser and shows a token.
#[expect(
    clippy::disallowed_methods,
    reason = "a person uses it, in their own terminal, with their own rights"
)]
fn set_up_token(context: &Context) -> Result<(), Failure> {
    context.ui.note("running `claude setup-token`; the token that it shows at its end is asked for next");
    let status = Command::new("claude").arg("setup-token").status().map_err(|error| {
        Failure::outside("no-claude", "`claude setup-token` cannot be run")
            .because(error)
            .hint("install Claude Code, or `agora auth claude --secret ANTHROPIC_API_KEY`")
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::outside("no-credential", "`claude setup-token` did not log in").because(status))
}

fn nothing(vendor: &Vendor) -> Failure {
    let usual = vendor.logins.iter().flat_map(|login| login.variables).copied();
    let names: Vec<_> = usual.take(2).collect();
    Failure::outside("no-credential", format!("there is nothing that `{}` could log in with", vendor.name))
        .because("no variable of this environment is a login, and standard input is not a terminal")
        .hint(format!("set `{}`, or give it with `--secret`", names.join("` or `")))
}
