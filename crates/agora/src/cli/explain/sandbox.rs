//! `agora explain --sandbox`: what an agent would see of this machine.

use agora_core::Name;
use agora_core::wall::{Access, Built, Isolation, Level, Network};
use agora_engine::objects_of;
use agora_worker::sandbox::preview::{Preview, Question, preview};
use serde::Serialize;
use serde_json::json;

use crate::cli::Context;
use crate::cli::dispatch::project::say_unused;
use crate::failure::Failure;

/// Tries the wall of a target, and tells what it would be.
pub(super) fn explain(context: &Context, target: &Name) -> Result<(), Failure> {
    let agora = context.config.dispatching()?;
    say_unused(context, &agora);
    let Some(settings) = agora.target(target) else {
        return Err(Failure::wrong("unknown-target", format!("there is no target `{target}`"))
            .hint("`agora.toml` names the targets; `local` is always there"));
    };
    let wish = settings.wall.clone();
    if let Some(container) = &settings.container {
        let contained = Contained { image: &container.image, network: wish.network };
        return context.ui.result(|| json!({"container": contained}), || contained.text());
    }
    let around = context.config.surroundings(Vec::new());
    let isolation = wish.isolation;
    let lent = context.config.repository();
    let lent =
        lent.map(|top| objects_of(&top, &around.home, around.user_home.as_deref())).unwrap_or_default();
    let memory_bytes = settings.memory_bytes;
    let question = Question { wish, agora_home: around.home, home: around.user_home, lent, memory_bytes };
    let preview = preview(&around.executable, &question, around.path)
        .map_err(|error| Failure::outside("no-preview", "the wall could not be tried").because(error))?;
    match preview {
        Preview::Built(built) => {
            for grant in &built.missing {
                context.ui.warn(format_args!(
                    "the grant `{grant}` names nothing on this machine, and shows nothing"
                ));
            }
            context.ui.result(|| &built, || text(&built, isolation))
        }
        Preview::Refused(why) => {
            Err(Failure::outside("wall-missing", "the agent would not start").because(why))
                .map_err(|failure| failure.hint("`agora doctor` says what mends it"))
        }
    }
}

/// What an agent in a container sees. The wall inside is built there: it depends on the daemon's machine, and is on each result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Contained<'a> {
    image: &'a str,
    network: Network,
}

impl Contained<'_> {
    fn text(&self) -> String {
        let Self { image, network } = self;
        let network = word(*network);
        format!(
            "wall:     a container of its own, without capabilities and new privileges; in it what Landlock and seccomp can\n\
             network:  {network}\n\nwritable:\n  the workspace\n  its home and `/tmp`, in memory\n\n\
             readable:\n  the files of the image `{image}`, and nothing of this machine\n"
        )
    }
}

fn word(network: Network) -> &'static str {
    match network {
        Network::Open => "open",
        _ => "none",
    }
}

fn text(built: &Built, asked: Isolation) -> String {
    let wall = match (built.level, asked) {
        (Level::None, _) => "none: the agent may do whatever you may".to_owned(),
        (Level::Namespaces, _) => match built.landlock {
            Some(abi) => format!("namespaces, Landlock (ABI {abi}) and seccomp"),
            None => "namespaces and seccomp".to_owned(),
        },
        (Level::Landlock, _) => {
            format!("Landlock (ABI {}) and seccomp, without namespaces", built.landlock.unwrap_or_default())
        }
    };
    let network = word(built.network);
    let mut lines = vec![format!("wall:     {wall}"), format!("network:  {network}")];
    lines.extend(built.because.iter().map(|because| format!("because:  {because}")));
    lines.extend(built.uid.map(|uid| format!("user:     {uid}")));
    for (title, access) in [("writable", Access::Write), ("readable", Access::Read)] {
        let paths: Vec<&str> =
            built.visible.iter().filter(|one| one.access == access).map(|one| one.path.as_str()).collect();
        if !paths.is_empty() {
            lines.push(format!("\n{title}:"));
            lines.extend(paths.into_iter().map(|path| format!("  {path}")));
        }
    }
    for (title, paths) in [("covered", &built.covered), ("leaves open", &built.leaves_open)] {
        if !paths.is_empty() {
            lines.push(format!("\n{title}:"));
            lines.extend(paths.iter().map(|path| format!("  {path}")));
        }
    }
    lines.join("\n") + "\n"
}
