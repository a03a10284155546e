//! What the three kinds of bundles share: list, get, versions, and how a registration is told.

use std::io;
use std::path::Path;

use agora_core::bundle::BundleBody;
use agora_core::catalogue::{Change, Registration};
use agora_core::provider::registry::Version;
use agora_core::reference::BundleRef;
use agora_core::{ContentHash, Timestamp};
use agora_engine::{BundleKind, Error, Found, Name};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Context, parse, plural};
use crate::failure::Failure;

/// Adds to an error what `--from` takes, where nothing is there that could be read.
pub(super) fn missing(error: Error, from: &Path, takes: &str) -> Failure {
    let is_missing = matches!(&error, Error::Unreadable { file, source }
        if file == from && source.kind() == io::ErrorKind::NotFound);
    let failure = Failure::from(error);
    if is_missing { failure.hint(takes) } else { failure }
}

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

/// A version of a name, as lists give it to programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    name: &'a Name,
    content_hash: ContentHash,
    registered_at: Timestamp,
    version: u64,
}

impl<'a> Listed<'a> {
    fn new(name: &'a Name, version: &Version) -> Self {
        let Version { seq, content_hash, registered_at } = *version;
        Self { name, content_hash, registered_at, version: seq }
    }
}

/// Returns a version of a name as every command gives it to programs, with what else there is to say.
pub(super) fn json_of(name: &Name, version: &Version, more: Value) -> Value {
    let listed = serde_json::to_value(Listed::new(name, version)).unwrap_or_default();
    let Value::Object(mut fields) = listed else { return listed };
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
    let shown = || names.iter().map(|(name, version)| Listed::new(name, version)).collect::<Vec<_>>();
    let told = context.ui.long_result(shown, |out| {
        let width = names.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
        names.iter().try_for_each(|(name, version)| {
            writeln!(out, "{name:<width$}  {}  {}", version.content_hash.short(), version.registered_at)
        })
    });
    // The process ends: to give thousands of names back one by one takes as long as to print them.
    std::mem::forget(names);
    told
}

/// Lists every version of a name, newest first.
pub(super) async fn versions(
    context: &Context,
    kind: BundleKind,
    arguments: &Versions,
) -> Result<(), Failure> {
    let name = &arguments.name;
    let versions = context.config.agora().versions(kind, name).await?;
    let shown = || versions.iter().map(|version| Listed::new(name, version)).collect::<Vec<_>>();
    context.ui.result(shown, || {
        let line = |version: &Version| {
            format!("{:>5}  {}  {}\n", version.seq, version.content_hash, version.registered_at)
        };
        versions.iter().map(line).collect()
    })
}

/// Finds one version and what it holds.
pub(super) async fn get<T: BundleBody>(context: &Context, arguments: &Get) -> Result<Found<T>, Failure> {
    Ok(context.config.agora().get(&arguments.reference).await?)
}

/// Writes the lines that `get` begins with, whatever the kind.
pub(super) fn heading<T>(found: &Found<T>) -> String {
    let Version { seq, content_hash, registered_at } = found.version;
    format!(
        "name:        {}\nversion:     {seq}, of {registered_at}\ncontentHash: {content_hash}\n",
        found.name
    )
}
