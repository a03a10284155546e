//! What `agora init` can do with what it found.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agora_core::catalogue::Change;
use agora_core::login::Vendor;
use agora_engine::{Agora, BundleKind, Error, Plan};

use crate::cli::{Context, auth, counted};
use crate::doctor::{Finding, Status};
use crate::failure::Failure;

/// The settings, each with its default, and none of them set.
const SETTINGS: &str = include_str!("agora.toml");

/// Something that can be done.
pub(super) enum Offer {
    /// Store the login that this environment has.
    Store(&'static Vendor, String),
    /// Log in with the vendor's own program.
    LogIn(&'static Vendor),
    Register {
        plan: Plan,
        says: String,
    },
    Write(PathBuf),
}

/// Finds what is not done yet.
pub(super) async fn gather(
    context: &Context,
    agora: &Agora,
    found: &[Finding],
) -> Result<Vec<Offer>, Failure> {
    let mut offers = Vec::new();
    for vendor in Vendor::ALL {
        if agora.stored_login(vendor).await?.is_some() {
            continue;
        }
        let installed = found.iter().any(|one| one.topic == vendor.name && one.status == Status::Ok);
        match auth::around(vendor) {
            Some(login) => offers.push(Offer::Store(vendor, login.variables.join(" and "))),
            None if installed => offers.push(Offer::LogIn(vendor)),
            None => {}
        }
    }
    offers.extend(project(context, agora).await?);
    let settings = context.config.around.settings.clone();
    if let Some(file) = settings.filter(|file| !file.exists()) {
        if file.is_symlink() {
            let shown = file.display();
            context
                .ui
                .warn(format_args!("`{shown}` is a link to a file that is not there; it was left alone"));
        } else {
            offers.push(Offer::Write(file));
        }
    }
    Ok(offers)
}

/// Looks at what the project has for Claude Code.
async fn project(context: &Context, agora: &Agora) -> Result<Option<Offer>, Failure> {
    let dir = context.config.repository().unwrap_or_else(|| PathBuf::from("."));
    // It is the project's, and not a reason to set nothing up.
    let told = |error: Error| {
        context.ui.warn(format_args!(
            "not everything in `{}/.claude` can be registered: {}",
            dir.display(),
            Failure::from(error).in_a_line()
        ));
    };
    let (plan, broken) = match agora.plan_sync_of_usable(&dir).await {
        Ok(found) => found,
        Err(error) => {
            told(error);
            return Ok(None);
        }
    };
    broken.into_iter().for_each(told);
    let new =
        |kind| plan.entries().filter(|entry| entry.kind == kind && entry.change != Change::Unchanged).count();
    let (agents, skills) = (new(BundleKind::Subagent), new(BundleKind::Capability));
    let says =
        format!("{} and {} of {}/.claude", counted(agents, "agent"), counted(skills, "skill"), dir.display());
    Ok((agents + skills > 0).then_some(Offer::Register { plan, says }))
}

impl Offer {
    /// Says what it does, as the end of a sentence.
    pub(super) fn says(&self) -> String {
        match self {
            Self::Store(vendor, variables) => {
                format!("store {variables} of this environment for {}", vendor.name)
            }
            Self::LogIn(vendor) => format!("log in to {} now", vendor.name),
            Self::Register { says, .. } => format!("register {says}"),
            Self::Write(file) => format!("write {} with every setting in comments", file.display()),
        }
    }

    /// Returns the command that does it another time.
    pub(super) fn otherwise(&self) -> String {
        match self {
            Self::Store(vendor, _) | Self::LogIn(vendor) => format!("`agora auth {}`", vendor.name),
            Self::Register { .. } => "`agora sync`".to_owned(),
            Self::Write(_) => "`agora init --yes`".to_owned(),
        }
    }

    pub(super) fn is_usual(&self) -> bool {
        !matches!(self, Self::Write(_))
    }

    pub(super) fn wants_a_person(&self) -> bool {
        matches!(self, Self::LogIn(_))
    }

    pub(super) async fn accept(self, context: &Context, agora: &Agora) -> Result<(), Failure> {
        match self {
            Self::Store(vendor, _) | Self::LogIn(vendor) => {
                let login = auth::take(context, agora, vendor, &[]).await?;
                context.ui.note(format_args!("stored: {} logs in with its {}", vendor.name, login.0.name));
                Ok(())
            }
            Self::Register { plan, says } => {
                agora.apply(plan, &[]).await?;
                context.ui.note(format_args!("registered {says}"));
                Ok(())
            }
            Self::Write(file) => {
                write(&file).map_err(|error| {
                    Failure::outside("settings-unwritable", format!("`{}` cannot be written", file.display()))
                        .because(error)
                        .hint("mend that, and run `agora init` again: it offers what is left")
                })?;
                context.ui.note(format_args!("wrote {}", file.display()));
                Ok(())
            }
        }
    }
}

/// Writes the file, unless somebody has meanwhile: as a whole, or not at all.
fn write(file: &Path) -> io::Result<()> {
    let dir = file.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(dir)?;
    // As any file of theirs, and no secret: their umask says who else reads it.
    let mut new = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(dir)?;
    new.as_file_mut().write_all(SETTINGS.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist_noclobber(file).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::SETTINGS;

    #[test]
    fn the_settings_that_are_written_set_nothing_and_can_be_used() {
        assert!(SETTINGS.lines().all(|line| line.is_empty() || line.starts_with('#')));
        let set: String =
            SETTINGS.lines().map(|line| line.strip_prefix("# ").unwrap_or(line).to_owned() + "\n").collect();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agora.toml");
        std::fs::write(&file, &set).unwrap();
        agora_engine::Settings::with_worker("/bin/agora").with_file(&file).unwrap();

        // The page has every key.
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = page.split("\n## ").find(|part| part.starts_with("Keys\n")).unwrap();
        let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        let keys = cells.flat_map(|cell| cell.split(", ")).map(|key| key.trim_matches('`'));
        let written: toml::Table = toml::from_str(&set).unwrap();
        for key in keys {
            let word = key.rsplit('.').find(|part| *part != "NAME").unwrap();
            assert!(has(&written, word), "`{key}` is not among the settings that `agora init` writes");
        }
    }

    fn has(table: &toml::Table, key: &str) -> bool {
        let within = |value: &toml::Value| value.as_table().is_some_and(|table| has(table, key));
        table.contains_key(key) || table.values().any(within)
    }
}
