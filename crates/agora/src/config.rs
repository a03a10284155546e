//! What is read from the environment and from `agora.toml`, once, in one place.

mod toml;

use std::ffi::OsString;
use std::path::PathBuf;

use agora_core::time::{Clock, Timestamp};
use agora_engine::{Agora, Namespace, Settings, SystemClock};

use crate::doctor::{CREDENTIAL_VARIABLES, Surroundings};
use crate::failure::Failure;

/// Where things are, for this user and this call.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) home: PathBuf,
    pub(crate) namespace: Namespace,
}

impl Config {
    /// Finds the home: `$AGORA_HOME`, else the XDG data directory. The namespace is an option of every command.
    pub(crate) fn new(namespace: Option<Namespace>) -> Result<Self, Failure> {
        let set = |name: &str| variable_os(name).map(PathBuf::from);
        // The XDG specification says that a relative path there is to be ignored.
        let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")));
        let home = set("AGORA_HOME").or_else(|| data.map(|data| data.join("agora"))).ok_or_else(|| {
            Failure::outside(
                "no-home",
                "there is no place to keep anything: neither AGORA_HOME nor HOME is set",
            )
            .hint("set `AGORA_HOME` to a directory of your own")
        })?;
        let home = std::path::absolute(&home).unwrap_or(home);
        Ok(Self { home, namespace: namespace.unwrap_or_default() })
    }

    pub(crate) fn agora(&self) -> Agora {
        Agora::open(&self.home).in_namespace(self.namespace.clone())
    }

    /// Opens agora with all that it takes to dispatch: this very program for workers, and the targets of `agora.toml`.
    pub(crate) fn dispatching(&self) -> Result<Agora, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::outside("no-program", "the machine does not say where this program is").because(error)
        })?;
        let mut settings = Settings::with_worker(program);
        settings.environment = worker_environment();
        let config_dir = variable_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config_dir =
            config_dir.or_else(|| variable_os("HOME").map(|home| PathBuf::from(home).join(".config")));
        if let Some(dir) = config_dir {
            toml::apply(&dir.join("agora").join("agora.toml"), &mut settings)?;
        }
        Ok(self.agora().with_settings(settings))
    }

    /// The time, for saying how long ago something was.
    pub(crate) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Gathers what `doctor` rests on. Of credentials only the names of what is set.
    pub(crate) fn surroundings(&self, stored_credentials: Vec<String>) -> Surroundings {
        let set = |name: &&str| variable_os(name).is_some();
        Surroundings {
            home: self.home.clone(),
            path: variable_os("PATH"),
            docker_host: variable_os("DOCKER_HOST").and_then(|host| host.into_string().ok()),
            user_home: variable_os("HOME").map(PathBuf::from),
            xdg_runtime_dir: variable_os("XDG_RUNTIME_DIR").map(PathBuf::from),
            credential_variables: CREDENTIAL_VARIABLES.into_iter().filter(set).collect(),
            stored_credentials,
            executable: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("agora")),
        }
    }
}

/// What workers get of this command's environment: where programs are, and how to speak. Nothing that says who one is.
fn worker_environment() -> Vec<(OsString, OsString)> {
    const NAMES: [&str; 5] = ["PATH", "USER", "LANG", "TERM", "TZ"];
    let harmless =
        |name: &OsString| name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("LC_"));
    std::env::vars_os().filter(|(name, _)| harmless(name)).collect()
}

/// Returns a variable that is set and not empty.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(crate) fn variable_os(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
