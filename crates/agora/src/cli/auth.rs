//! `agora auth`: what an agent logs in with, stored for every dispatch.

mod status;
mod vendor;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};

use agora_core::bundle::VariableName;
use agora_core::login::{CLAUDE, Login, Vendor};
use agora_core::secret::SecretValue;
use agora_engine::{Agora, Outside};
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
    long_about = "Store what an agent logs in with, encrypted, for every dispatch.\n\nTaken from `--secret`, else from this environment. Without either, on a terminal, the vendor's own program logs in: `claude setup-token`, whose token is asked for, or `codex login` into a directory that is agora's. Your own login of claude and codex (`~/.claude`, `~/.codex`, a keychain) is never read, copied or used up.",
    after_help = "Examples:\n  agora auth claude\n  agora auth claude --secret ANTHROPIC_API_KEY=file:key.txt\n  agora auth codex --secret CODEX_API_KEY=stdin < key.txt\n  agora auth status\n  agora auth remove claude"
)]
pub(super) struct Auth {
    /// Whose agent, claude or codex; or `status`, or `remove`
    #[arg(value_name = "VENDOR|status|remove", value_parser = parse_what)]
    what: What,
    /// With `remove`: whose
    #[arg(value_parser = parse_vendor)]
    whose: Option<&'static Vendor>,
    /// A variable that it logs in with, as for `env register`; may be given again
    #[arg(long, value_name = "KEY[=SOURCE]")]
    secret: Vec<String>,
    /// Forget what is stored
    #[arg(long, conflicts_with = "secret")]
    remove: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Of(&'static Vendor),
    Status,
    Remove,
}

fn parse_what(text: &str) -> Result<What, String> {
    match text {
        "status" | "list" => Ok(What::Status),
        "remove" => Ok(What::Remove),
        vendor => parse_vendor(vendor)
            .map(What::Of)
            .map_err(|_| "it is `claude` or `codex`, or `status`, or `remove` with one of them".to_owned()),
    }
}

fn parse_vendor(text: &str) -> Result<&'static Vendor, String> {
    let known = Vendor::ALL.into_iter().find(|vendor| vendor.name == text);
    known.ok_or_else(|| "it is `claude` or `codex`".to_owned())
}

impl Auth {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = context.config.agora();
        match (self.what, self.whose) {
            (What::Status, None) => status::tell(context, &agora).await,
            (What::Remove, Some(vendor)) => forget(context, &agora, vendor).await,
            (What::Remove, None) => Err(Failure::wrong("usage", "whose login is to be forgotten?")
                .hint("`agora auth remove claude`, or `agora auth remove codex`")),
            (What::Of(vendor), None) if self.remove => forget(context, &agora, vendor).await,
            (What::Of(vendor), None) => store(context, &agora, vendor, &self.secret).await,
            (What::Of(_) | What::Status, Some(vendor)) => {
                Err(Failure::wrong("usage", format!("`{}` is one word too many", vendor.name)))
            }
        }
    }
}

async fn forget(context: &Context, agora: &Agora, vendor: &'static Vendor) -> Result<Exit, Failure> {
    let removed = agora.forget_login(vendor).await?;
    context.ui.result(
        || json!({"vendor": vendor.name, "removed": removed}),
        || if removed { "forgotten\n".to_owned() } else { "nothing was stored\n".to_owned() },
    )?;
    Ok(Exit::Done)
}

async fn store(
    context: &Context,
    agora: &Agora,
    vendor: &'static Vendor,
    secrets: &[String],
) -> Result<Exit, Failure> {
    let (login, variables) = take(context, agora, vendor, secrets).await?;
    context.ui.result(
        || json!({"vendor": vendor.name, "auth": login.name, "variables": variables}),
        || format!("stored: {} logs in with its {} ({})\n", vendor.name, login.name, variables.join(", ")),
    )?;
    context.ui.hint("it is used where neither the dispatch nor an env bundle brings another");
    Ok(Exit::Done)
}

/// Takes a login from wherever there is one, and stores it in the place of what was there. Returns it with the variables that it
/// came as.
pub(super) async fn take(
    context: &Context,
    agora: &Agora,
    vendor: &'static Vendor,
    secrets: &[String],
) -> Result<(&'static Login, Vec<String>), Failure> {
    if let Some(values) = values(context, vendor, secrets).await? {
        let login = agora.store_login(vendor, &values).await?;
        return Ok((login, values.keys().map(ToString::to_string).collect()));
    }
    vendor::codex_login(context, &agora.prepare_codex_home()?).await?;
    let login = agora.take_codex_login().await?.ok_or_else(|| {
        Failure::outside("no-credential", "`codex login` left no login")
            .hint("an API key does too: `agora auth codex --secret OPENAI_API_KEY`")
    })?;
    Ok((login, login.variables.iter().map(|name| (*name).to_owned()).collect()))
}

/// Returns what to store. `None`: the vendor's program is to log in, and keeps it itself.
async fn values(
    context: &Context,
    vendor: &'static Vendor,
    secrets: &[String],
) -> Result<Option<BTreeMap<VariableName, SecretValue>>, Failure> {
    if !secrets.is_empty() {
        return secrets.iter().map(|secret| read_secret(context, secret)).collect::<Result<_, _>>().map(Some);
    }
    let set = |name: &str| Terminal.variable(name).is_some();
    if let Some(login) = around(vendor) {
        context.ui.note(format_args!("taking `{}` of this environment", login.variables.join("` and `")));
        let all = login.variables.iter().chain(login.beside).filter(|name| set(name));
        let taken = all.map(|name| read_secret(context, &format!("{name}=env:{name}")));
        return taken.collect::<Result<_, _>>().map(Some);
    }
    let login = vendor.logins.first().ok_or_else(|| nothing(vendor))?;
    if !io::stdin().is_terminal() {
        return Err(nothing(vendor));
    }
    if *vendor != CLAUDE {
        return Ok(None);
    }
    vendor::claude_setup_token(context).await?;
    login.variables.iter().map(|name| read_secret(context, name)).collect::<Result<_, _>>().map(Some)
}

/// Returns the login that this environment has.
pub(super) fn around(vendor: &'static Vendor) -> Option<&'static Login> {
    let set = |name: &str| Terminal.variable(name).is_some();
    let alone = vendor.logins.iter().filter(|login| login.stands_alone);
    alone.into_iter().find(|login| login.variables.iter().all(|name| set(name)))
}

fn nothing(vendor: &Vendor) -> Failure {
    let usual = vendor.logins.iter().flat_map(|login| login.variables).copied();
    let names: Vec<_> = usual.take(2).collect();
    Failure::outside("no-credential", format!("there is nothing that `{}` could log in with", vendor.name))
        .because("no variable of this environment is a login, and standard input is not a terminal")
        .hint(format!("set `{}`, or give it with `--secret`", names.join("` or `")))
}
