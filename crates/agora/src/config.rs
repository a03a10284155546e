//! What is read from the environment, once, in one place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agora_core::time::{Clock, Timestamp};
use agora_core::wall::Isolation;
use agora_engine::{self as engine, Agora, Name, Namespace, SystemClock};

use crate::doctor::Surroundings;
use crate::doctor::notify::Desktop;
use crate::failure::Failure;
use crate::helpers::Helpers;
use agora_core::login::Vendor;

/// Where things are, for this user and this call.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) around: engine::Surroundings,
    pub(crate) namespace: Namespace,
}

impl Config {
    /// Finds the home: `$AGORA_HOME`, else the XDG data directory. The namespace is an option of every command.
    pub(crate) fn new(namespace: Option<Namespace>) -> Result<Self, Failure> {
        Ok(Self { around: engine::Surroundings::look()?, namespace: namespace.unwrap_or_default() })
    }

    pub(crate) fn home(&self) -> &Path {
        &self.around.home
    }

    pub(crate) fn agora(&self) -> Agora {
        Agora::open(self.home()).in_namespace(self.namespace.clone())
    }

    /// Opens agora with all that it takes to dispatch: this very program for workers, and the targets of `agora.toml`.
    pub(crate) fn dispatching(&self) -> Result<Agora, Failure> {
        Ok(self.agora().with_settings(self.around.settings(&program()?)?))
    }

    /// Opens agora as if there were no `agora.toml`: to look at what is recorded where that cannot be used.
    pub(crate) fn without_settings(&self) -> Result<Agora, Failure> {
        Ok(self.agora().with_settings(engine::Settings::with_worker(program()?)))
    }

    /// Makes an image with this very program as its worker.
    #[cfg(feature = "docker")]
    pub(crate) async fn build_image(
        &self,
        request: engine::ImageRequest,
    ) -> Result<engine::BuiltImage, Failure> {
        Ok(self.around.build_image(&program()?, request).await?)
    }

    /// Returns the home of whoever runs this, where it truly is.
    pub(crate) fn users_home(&self) -> Option<PathBuf> {
        std::fs::canonicalize(variable_os("HOME")?).ok()
    }

    /// Tells whether a program is on the path.
    pub(crate) fn has_program(&self, name: &str) -> bool {
        self.around.program(name).is_some()
    }

    /// Returns the root of the git repository that the current directory is in.
    pub(crate) fn repository(&self) -> Option<PathBuf> {
        let here = std::env::current_dir().ok()?;
        here.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
    }

    /// Returns where the current directory is in that repository.
    pub(crate) fn below_repository(&self) -> Option<PathBuf> {
        let here = std::env::current_dir().ok()?;
        Some(here.strip_prefix(self.repository()?).ok()?.to_owned())
    }

    /// Returns how this user wants to be told of questions.
    pub(crate) fn notify_ways(&self) -> Result<Vec<engine::NotifyWay>, Failure> {
        Ok(self.around.settings(&program()?)?.notify)
    }

    /// Returns the targets whose agents stand behind no wall.
    pub(crate) fn targets_without_wall(&self) -> Result<Vec<Name>, Failure> {
        let targets = self.around.settings(&program()?)?.targets;
        let open = targets.into_iter().filter(|(_, target)| target.wall.isolation == Isolation::None);
        Ok(open.map(|(name, _)| name).collect())
    }

    /// Tells somebody by the ways that a message names, and returns when that is done.
    pub(crate) fn pass_on(&self, message: &engine::NotifyMessage) {
        engine::pass_on(message, self.home(), variable_os("PATH"));
    }

    /// Opens agora as [`Config::dispatching`] does, to carry what nobody waits for.
    pub(crate) fn carrying(&self) -> Result<Agora, Failure> {
        let mut settings = self.around.settings(&program()?)?;
        settings.unattended = true;
        Ok(self.agora().with_settings(settings))
    }

    /// Looks whether there is a desktop that shows what it is told.
    pub(crate) fn desktop(&self) -> Desktop {
        let bus = variable_os("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("bus"));
        Desktop {
            notify_send: self.has_program("notify-send"),
            session: variable_os("DBUS_SESSION_BUS_ADDRESS").is_some() || bus.is_some_and(|bus| bus.exists()),
        }
    }

    /// Finds the programs that whoever sits at the terminal reads and writes with.
    pub(crate) fn helpers(&self) -> Helpers {
        let known = |names: &[&str]| {
            let found = names.iter().find(|name| self.has_program(name));
            found.map(|name| OsString::from(*name))
        };
        Helpers {
            editor: variable_os("VISUAL")
                .or_else(|| variable_os("EDITOR"))
                .or_else(|| known(&["editor", "vi", "nano"])),
            pager: variable_os("PAGER").or_else(|| known(&["less"])),
            less_is_set: variable_os("LESS").is_some(),
            no_colour: variable_os("NO_COLOR").is_some()
                || variable_os("TERM").is_some_and(|term| term == "dumb"),
        }
    }

    /// The time, for saying how long ago something was.
    pub(crate) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Gathers what `doctor` rests on. Of credentials only the names of what is set.
    pub(crate) fn surroundings(&self, stored_credentials: Vec<String>) -> Surroundings {
        let set = |name: &&str| variable_os(name).is_some();
        let names = Vendor::ALL.into_iter().flat_map(Vendor::variables);
        Surroundings {
            home: self.home().to_owned(),
            path: variable_os("PATH"),
            docker_host: variable_os("DOCKER_HOST").and_then(|host| host.into_string().ok()),
            user_home: variable_os("HOME").map(PathBuf::from),
            xdg_runtime_dir: variable_os("XDG_RUNTIME_DIR").map(PathBuf::from),
            credential_variables: names.filter(set).collect(),
            stored_credentials,
            executable: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("agora")),
        }
    }
}

/// Finds this very program.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::outside("no-program", "the machine does not say where this program is").because(error)
    })
}

/// Returns a variable that is set and not empty.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(crate) fn variable_os(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
