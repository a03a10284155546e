//! What the three kinds of bundles share: list, get, versions, and how a registration is told.

use agora_core::catalogue::{Change, Registration};
use agora_core::provider::registry::Version;
use agora_core::reference::BundleRef;
use agora_engine::{BundleKind, Found, Name};
use serde_json::{Map, Value, json};

use super::{Context, parse, plural};
use crate::failure::Failure;

/// Which version of a name to show.
#[derive(Debug, clap::Args)]
pub(super) struct Get {
    /// A name, `name@sha256:…` (12 digits or more), or `name@<RFC 3339 time>`
    #[arg(value_name = "REFERENCE", value_parser = parse::<BundleRef>)]
    pub(super) reference: BundleRef,
}

/// Which name's versions to show.
#[derive(Debug, clap::Args)]
pub(super) struct Versions {
    /// The name
    #[arg(value_parser = parse::<Name>)]
    name: Name,
}

/// Returns a version of a name as every command gives it to programs, with what else there is to say.
pub(super) fn json_of(name: &Name, version: &Version, more: Value) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(name));
    fields.insert("contentHash".to_owned(), json!(version.content_hash));
    fields.insert("registeredAt".to_owned(), json!(version.registered_at));
    fields.insert("version".to_owned(), json!(version.seq));
    if let Value::Object(more) = more {
        fields.extend(more);
    }
    Value::Object(fields)
}

/// Returns the word for a change, as it is printed and given to programs.
pub(super) fn word(change: Change) -> &'static str {
    match change {
        Change::New => "new",
        Change::Changed => "changed",
        Change::Unchanged => "unchanged",
    }
}

/// Tells what registering gave: the reference that means exactly this content.
pub(super) fn registered(
    context: &Context,
    kind: BundleKind,
    name: &Name,
    registration: Registration,
) -> Result<(), Failure> {
    let Registration { version, change } = registration;
    let json = || json_of(name, &version, json!({"change": word(change)}));
    match change {
        Change::New => context.ui.note(format!("registered the {kind} `{name}`")),
        Change::Changed => {
            context.ui.note(format!("registered version {} of the {kind} `{name}`", version.seq));
        }
        Change::Unchanged => {
            context.ui.note(format!("the {kind} `{name}` has this content already: version {}", version.seq));
        }
    }
    context.ui.result(json, || format!("{name}@{}\n", version.content_hash))
}

/// Lists every name of a kind.
pub(super) async fn list(context: &Context, kind: BundleKind) -> Result<(), Failure> {
    let names = context.config.agora().list(kind).await?;
    if names.is_empty() {
        context.ui.note(format!(
            "no {} are registered in the namespace `{}`",
            plural(kind),
            context.config.namespace
        ));
        context.ui.hint(format!("`agora {kind} register --help` has an example"));
    }
    let shown =
        || names.iter().map(|(name, version)| json_of(name, version, Value::Null)).collect::<Vec<_>>();
    context.ui.result(shown, || {
        let width = names.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
        let line = |(name, version): &(Name, Version)| {
            format!("{name:<width$}  {}  {}\n", short(version), version.registered_at)
        };
        names.iter().map(line).collect()
    })
}

/// Lists every version of a name, newest first.
pub(super) async fn versions(
    context: &Context,
    kind: BundleKind,
    arguments: &Versions,
) -> Result<(), Failure> {
    let name = &arguments.name;
    let versions = context.config.agora().versions(kind, name).await?;
    let shown = || versions.iter().map(|version| json_of(name, version, Value::Null)).collect::<Vec<_>>();
    context.ui.result(shown, || {
        let line = |version: &Version| {
            format!("{:>5}  {}  {}\n", version.seq, version.content_hash, version.registered_at)
        };
        versions.iter().map(line).collect()
    })
}

/// Finds one version and what it holds.
pub(super) async fn get(context: &Context, kind: BundleKind, arguments: &Get) -> Result<Found, Failure> {
    Ok(context.config.agora().get(kind, &arguments.reference).await?)
}

/// Writes the lines that `get` begins with, whatever the kind.
pub(super) fn heading(found: &Found) -> String {
    let Version { seq, content_hash, registered_at } = found.version;
    format!(
        "name:        {}\nversion:     {seq}, of {registered_at}\ncontentHash: {content_hash}\n",
        found.name
    )
}

/// Returns as much of a hash as a reference needs.
fn short(version: &Version) -> String {
    let digits = version.content_hash.digits();
    format!("sha256:{}", &digits[..12])
}
