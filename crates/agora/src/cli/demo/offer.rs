//! Whether a real agent plays instead: only where one is there, can log in, and somebody says so.

use std::io;

use agora_core::login::Vendor;
use agora_engine::Dispatch;

use super::Cast;
use crate::ask;
use crate::cli::Context;
use crate::failure::Failure;

/// Finds who plays: whoever is named, else the script, unless a person wants a real agent that is here.
pub(super) async fn cast(context: &Context, named: Option<&str>) -> Result<(Cast, Option<String>), Failure> {
    if let Some(name) = named {
        let vendor = Vendor::ALL.into_iter().find(|vendor| vendor.name == name);
        let vendor = vendor.ok_or_else(|| {
            Failure::wrong("unknown-agent", format!("the demo knows no agent `{name}`"))
                .hint("`--agent claude` or `--agent codex`; without it the agent is scripted")
        })?;
        if !context.config.has_program(vendor.name) {
            return Err(Failure::outside(
                "no-agent",
                format!("`{}` is not installed here, or not on PATH", vendor.name),
            )
            .hint("`agora doctor` shows where it looks; `agora demo` alone needs no agent"));
        }
        return Ok((Cast::Real(vendor), None));
    }
    let Some(vendor) = usable(context).await else { return Ok((Cast::Scripted, None)) };
    if !context.ui.can_ask() {
        return Ok((Cast::Scripted, Some(vendor.name.to_owned())));
    }
    let question = format!(
        "{name} is here and can log in. Play with {name} instead of a script? It costs money. [y/N] ",
        name = vendor.name
    );
    Ok(match says_yes(&question)? {
        true => (Cast::Real(vendor), None),
        false => (Cast::Scripted, Some(vendor.name.to_owned())),
    })
}

/// Returns the first agent that is installed and has something to log in with. What cannot be found out is not offered.
async fn usable(context: &Context) -> Option<&'static Vendor> {
    let agora = context.config.dispatching().ok()?;
    for vendor in Vendor::ALL {
        let dispatch = Dispatch::to(vendor.name);
        if context.config.has_program(vendor.name)
            && matches!(agora.login_of(vendor, &dispatch).await, Ok(Some(_)))
        {
            return Some(vendor);
        }
    }
    None
}

fn says_yes(question: &str) -> Result<bool, Failure> {
    let failed =
        |error: io::Error| Failure::outside("terminal-lost", "the terminal cannot be read").because(error);
    let said = ask::word(question).map_err(failed)?;
    Ok(said.unwrap_or_default().trim().to_ascii_lowercase().starts_with('y'))
}
