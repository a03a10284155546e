//! What of a workspace the agent does not get to see: said before it looks for it in vain.

use std::path::Path;

use agora_core::ground::Ground;
use agora_core::wall::is_never_visible;

use crate::ui::Ui;

/// How many paths are named.
const NAMED: usize = 3;

/// Names the first of what was left out, and says how many more there are. `None`: nothing was.
pub(crate) fn named(ground: &Ground) -> Option<String> {
    let all: Vec<&String> = ground.left_out.iter().collect();
    (!all.is_empty()).then(|| listed(&all, ground.left_out_more))
}

fn listed(paths: &[&String], more: u64) -> String {
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    let more = (paths.len() - named.len()) as u64 + more;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}

/// Tells whether what was left out is a nested repository, whose files are there.
fn is_git(path: &str) -> bool {
    path == ".git" || path.ends_with("/.git")
}

/// Says what was left out, once, and how to have it all the same.
pub(crate) fn tell(ui: Ui, home: Option<&Path>, ground: &Ground) {
    // Of one that was fetched nothing is left out.
    let Some(source) = ground.source.path().map(Path::new) else { return };
    if home.is_some_and(|home| home.starts_with(source)) {
        ui.warn(
            "the workspace holds your home directory: keys and logins in it are never shown, nor taken by `.worktreeinclude`",
        );
    }
    let (repositories, others): (Vec<&String>, Vec<&String>) =
        ground.left_out.iter().partition(|path| is_git(path));
    if !repositories.is_empty() {
        ui.warn(format_args!(
            "not a repository in the agent's workspace, because it is broken, or not what it says: {}",
            listed(&repositories, 0)
        ));
    }
    if others.is_empty() {
        return;
    }
    ui.note(format_args!(
        "not in the agent's workspace, because it could be a secret or cannot be read: {}",
        listed(&others, ground.left_out_more)
    ));
    let never = |path: &String| {
        let path = source.join(path);
        home.and_then(|home| path.strip_prefix(home).ok()).is_some_and(is_never_visible)
    };
    if !others.into_iter().all(never) {
        ui.hint(
            "a `.worktreeinclude` beside it names what is to be taken all the same; `workspace.leftOut` of the result lists all",
        );
    }
}
