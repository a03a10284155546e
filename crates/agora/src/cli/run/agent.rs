//! Which agent does it, when nobody says or only a word is said.

use agora_core::bundle::Subagent;
use agora_core::login::Vendor;
use agora_core::reference::BundleRef;
use agora_engine::{Agora, Dispatch, Found, LoginSource, UsedLogin};

use crate::cli::{Context, parse};
use crate::failure::Failure;

/// An agent that was chosen.
pub(super) struct Agent {
    pub(super) found: Found<Subagent>,
}

impl Agent {
    /// Returns what means exactly this one, also when somebody registers another meanwhile.
    pub(super) fn reference(&self) -> String {
        format!("{}@{}", self.found.name, self.found.version.content_hash)
    }
}

/// Finds the agent that is named, or else the first that is installed and could log in. Says which, where nobody said.
pub(super) async fn choose(
    context: &Context,
    agora: &Agora,
    named: Option<&str>,
    dispatch: &Dispatch,
) -> Result<Agent, Failure> {
    let reference = match named {
        Some(name) => parse::<BundleRef>(name).map_err(|error| Failure::wrong("bad-name", error))?,
        None => first_usable(context, agora, dispatch).await?,
    };
    let found = agora.subagent(&reference).await?;
    let vendor = Vendor::ALL.into_iter().find(|vendor| vendor.name == found.name.as_str());
    match vendor {
        Some(vendor) if found.is_built_in() => see_installed(context, agora, dispatch, vendor)?,
        Some(vendor) => {
            context.ui.note(format_args!(
                "`{0}` is the subagent that you registered, not the built-in one",
                vendor.name
            ));
        }
        None => {}
    }
    Ok(Agent { found })
}

async fn first_usable(context: &Context, agora: &Agora, dispatch: &Dispatch) -> Result<BundleRef, Failure> {
    let mut installed = None;
    for vendor in Vendor::ALL {
        if !is_installed(context, agora, dispatch, vendor) {
            continue;
        }
        if let Some(login) = agora.login_of(vendor, dispatch).await? {
            context.ui.note(format_args!("{} does it, with {}", vendor.name, told(login)));
            return reference(vendor);
        }
        installed = installed.or(Some(vendor));
    }
    match installed {
        Some(vendor) => Err(agora_engine::Error::NoLogin { vendor }.into()),
        None => Err(Failure::outside("no-agent", "neither `claude` nor `codex` is installed here")
            .hint("`npm install -g @anthropic-ai/claude-code`, or `npm install -g @openai/codex`")
            .hint("`agora doctor` shows where it looks and what else is missing")),
    }
}

fn reference(vendor: &Vendor) -> Result<BundleRef, Failure> {
    parse::<BundleRef>(vendor.name).map_err(Failure::bug)
}

fn told(login: UsedLogin) -> String {
    let place = match login.source {
        LoginSource::Dispatch => "given with it",
        LoginSource::Around => "of this environment",
        other => other.place(),
    };
    format!("the {} {place}", login.login.name)
}

fn is_installed(context: &Context, agora: &Agora, dispatch: &Dispatch, vendor: &Vendor) -> bool {
    // What another place has, only that place knows; that there is no such target is said when it is dispatched.
    let name = dispatch.target_name().parse().ok();
    let elsewhere = name.and_then(|name| agora.target(&name)).is_none_or(|target| target.container.is_some());
    elsewhere || context.config.has_program(vendor.name)
}

fn see_installed(
    context: &Context,
    agora: &Agora,
    dispatch: &Dispatch,
    vendor: &Vendor,
) -> Result<(), Failure> {
    if is_installed(context, agora, dispatch, vendor) {
        return Ok(());
    }
    let package = if vendor.name == "codex" { "@openai/codex" } else { "@anthropic-ai/claude-code" };
    Err(Failure::outside("no-agent", format!("`{}` is not installed here, or not on PATH", vendor.name))
        .hint(format!("`npm install -g {package}`"))
        .hint("`agora doctor` shows where it looks and what else is missing"))
}
