//! `agora capability`: files laid over an agent's workspace.

use std::path::PathBuf;

use agora_core::bundle::{Capability as CapabilityBundle, FileEntry};
use agora_engine::{BundleKind, Name};
use clap::{Args, Subcommand};
use serde_json::json;

use super::bundle::{self, Get, Versions};
use super::{Allowed, Context, counted, parse};
use crate::failure::Failure;

const KIND: BundleKind = BundleKind::Capability;

/// Register files that are laid over an agent's workspace
#[derive(Debug, Subcommand)]
pub(super) enum Capability {
    /// Register the files below a directory as a capability
    #[command(after_help = "Example:\n  agora capability register --name house-style --from ./house-style")]
    Register(Register),
    /// List the capabilities with their latest version
    #[command(after_help = "Example:\n  agora capability list --json")]
    List,
    /// Show what a capability holds
    #[command(after_help = "Example:\n  agora capability get house-style@sha256:3f2a9c1b7d04")]
    Get(Get),
    /// List the versions of a capability, newest first
    #[command(after_help = "Example:\n  agora capability versions house-style")]
    Versions(Versions),
}

#[derive(Debug, Args)]
pub(super) struct Register {
    /// The name to register it under
    #[arg(long, value_parser = parse::<Name>)]
    name: Name,
    /// The directory; its files keep their paths below it
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    allowed: Allowed,
}

impl Capability {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Register(Register { name, from, allowed }) => {
                let registered =
                    context.config.agora().register_capability(&name, &from, &allowed.patterns).await;
                let takes =
                    "`--from DIR` takes a directory: what is below it is laid over the agent's workspace";
                let registered = registered.map_err(|error| bundle::missing(error, &from, takes))?;
                bundle::registered(context, KIND, &name, registered)
            }
            Self::List => bundle::list(context, KIND).await,
            Self::Versions(versions) => bundle::versions(context, KIND, &versions).await,
            Self::Get(get) => {
                let found = bundle::get::<CapabilityBundle>(context, &get).await?;
                let capability = &found.body;
                let (files, total_bytes) = (capability.files(), capability.total_bytes());
                let more = || json!({"totalBytes": total_bytes, "files": files});
                context.ui.result(
                    || bundle::json_of(&found.name, &found.version, more()),
                    || {
                        let line = |file: &FileEntry| {
                            format!("{} {:>10}  {}\n", u32::from(file.mode), file.size, file.path)
                        };
                        let list: String = files.iter().map(line).collect();
                        format!(
                            "{}holds:       {}, {total_bytes} bytes\n{list}",
                            bundle::heading(&found),
                            counted(files.len(), "file")
                        )
                    },
                )
            }
        }
    }
}
