//! What of a workspace the agent does not get to see: said before it looks for it in vain.

use std::path::Path;

use agora_core::ground::Ground;
use agora_core::wall::is_never_visible;

use crate::ui::Ui;

/// How many paths are named.
const NAMED: usize = 3;

/// Names the first of what was left out, and says how many more there are. `None`: nothing was.
pub(crate) fn named(ground: &Ground) -> Option<String> {
    let named: Vec<String> = ground.left_out.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    let more = ground.left_out.len() as u64 + ground.left_out_more - named.len() as u64;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| named.join(", ") + &more)
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
    let Some(named) = named(ground) else { return };
    ui.note(format_args!(
        "not in the agent's workspace, because it could be a secret or cannot be read: {named}"
    ));
    let never = |path: &String| {
        let path = source.join(path);
        home.and_then(|home| path.strip_prefix(home).ok()).is_some_and(is_never_visible)
    };
    if !ground.left_out.iter().all(never) {
        ui.hint(
            "a `.worktreeinclude` beside it names what is to be taken all the same; `workspace.leftOut` of the result lists all",
        );
    }
}
