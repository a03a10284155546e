//! What of a project's `agora.toml` does not count, and who is told.

use agora_engine::{Agora, Error, Ignored, SettingsError, Unused};

use crate::cli::Context;
use crate::failure::Failure;

/// Says which keys do not count for what is about to run.
pub(super) fn say_ignored(context: &Context, agora: &Agora) {
    if let Some(Ignored { file, keys, was_changed }) = agora.ignored_settings() {
        let why = if *was_changed { "it was changed after you trusted it" } else { "it is not trusted" };
        context.ui.warn(format_args!(
            "of `{}` these keys are ignored, {why}: {}; `agora trust` lets them count",
            file.display(),
            keys.join(", ")
        ));
    }
}

/// Says that a file is ignored as a whole.
pub(in crate::cli) fn say_unused(context: &Context, agora: &Agora) {
    if let Some(Unused { file, why, .. }) = agora.unused_settings() {
        context.ui.warn(format_args!("`{}` is ignored: {why}", file.display()));
    }
}

/// Refuses to run anything by a file that cannot be read: whoever wrote it meant something. Another user's never counts, and is only said.
pub(super) fn see_usable(context: &Context, agora: &Agora) -> Result<(), Failure> {
    match agora.unused_settings() {
        Some(Unused { file, why, is_foreign: false }) => {
            let source = SettingsError::Wrong(why.clone());
            let refused = Failure::from(Error::Settings { file: file.clone(), source });
            Err(refused.hint("mend it, or run it elsewhere; all of it counts only after `agora trust`"))
        }
        Some(_) | None => {
            say_unused(context, agora);
            Ok(())
        }
    }
}
