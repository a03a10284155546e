//! `agora image`: what workers in containers run in.

use agora_engine::ImageRequest;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Context, counted};
use crate::failure::Failure;
use crate::ui::path_text;

/// Make what workers in containers run in
#[derive(Debug, Subcommand)]
pub(super) enum Image {
    Build(Build),
}

/// Make an image from this agora and programs of this machine
#[derive(Debug, Args)]
#[command(
    long_about = "Make an image from this agora and from programs that are on this machine's path, with the libraries that they need, and load it into Docker or Podman. No registry is needed. The same programs make the same image, with the same digest.\n\n`tools` stands for what people expect of a shell: ls, cat, grep, sed and so on, as far as they are here. An agent brings its shell.",
    after_help = "Examples:\n  agora image build --with claude --with git,tools\n  agora image build --with codex --name team/codex\n\nThen, in `agora.toml`:\n  [target.box]\n  compute = \"docker\"\nand `agora dispatch run --target box …`"
)]
pub(super) struct Build {
    /// Put a program in; several with commas, or given again
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',')]
    with: Vec<String>,
    /// What it is called
    #[arg(long, value_name = "NAME[:TAG]")]
    name: Option<String>,
    /// Load it into the daemon of this target, under the name that it uses
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
}

impl Image {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let Self::Build(Build { with, name, target }) = self;
        let built = context.config.build_image(ImageRequest { name, with, target }).await?;
        let programs: Vec<_> = built
            .programs
            .iter()
            .map(|(name, from)| json!({"name": name, "from": path_text(from)}))
            .collect();
        let document =
            json!({"name": built.name, "digest": built.id, "bytes": built.bytes, "programs": programs});
        context.ui.result(|| &document, || format!("{} {}\n", built.name, built.id.0))?;
        let names: Vec<&str> = built.programs.iter().map(|(name, _)| name.as_str()).collect();
        let list = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        context.ui.note(format!(
            "{} MiB, with agora and {}{list}",
            built.bytes.div_ceil(1 << 20),
            counted(names.len(), "program")
        ));
        context.ui.hint("`compute = \"docker\"` in a `[target.NAME]` of `agora.toml` runs workers in it");
        Ok(())
    }
}
