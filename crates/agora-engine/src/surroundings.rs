//! What is found around a program. The only part of the library that reads the environment, and only for whoever asks.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use agora_core::bundle::VariableName;
use agora_core::login::Vendor;
use agora_core::secret::{SecretValue, ShortSecrets};

use crate::agora::Agora;
use crate::error::Error;
use crate::settings::Settings;

/// What workers get of their starter's variables: where programs are, and how to speak. Nothing that says who one is. The home is
/// where tools are looked for; an agent gets another one.
const HARMLESS: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TERM", "TZ"];

/// What the host's git gets: whose it is, and how it reaches other machines when somebody names a URL, or asks who one is there.
const GITS: [&str; 33] = [
    "PATH",
    "HOME",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "SSH_AUTH_SOCK",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "KRB5CCNAME",
    "GNUPGHOME",
    "PASSWORD_STORE_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// And whatever is called so: certificates, and how to get through a proxy.
const GITS_BEGIN: [&str; 2] = ["GIT_SSL_", "GIT_PROXY_"];

/// Tells a carrier, which is in no project's directory, whose work it carries.
pub const PROJECT_DIR: &str = "AGORA_PROJECT_DIR";

/// Where a user's things are, and what the programs around are called.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// `$AGORA_HOME`, else a directory in the XDG data directory.
    pub home: PathBuf,
    /// The user's `agora.toml`, which need not exist.
    pub settings: Option<PathBuf>,
    /// Where a project's `agora.toml` is looked for, and from there upward.
    pub project_dir: Option<PathBuf>,
    /// What workers get of this process's variables.
    pub environment: Vec<(OsString, OsString)>,
    /// What the host's git gets of them.
    pub git_environment: Vec<(OsString, OsString)>,
    /// What a vendor's program could log in with.
    logins: BTreeMap<VariableName, SecretValue>,
    path: Option<OsString>,
    /// Where daemons that run containers would listen for this user.
    sockets: Vec<PathBuf>,
}

impl Surroundings {
    /// Looks around this process.
    pub fn look() -> Result<Self, Error> {
        let mut around = Self::among(&std::env::vars_os().collect::<Vec<_>>())?;
        around.project_dir = around.project_dir.or_else(|| std::env::current_dir().ok());
        Ok(around)
    }

    fn among(variables: &[(OsString, OsString)]) -> Result<Self, Error> {
        let variable = |wanted: &str| {
            let set = variables.iter().find(|(name, value)| name == wanted && !value.is_empty());
            set.map(|(_, value)| value.clone())
        };
        // The XDG specification says that a relative path there is to be ignored.
        let base = |name: &str, below_home: &str| {
            let set = variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
            set.or_else(|| variable("HOME").map(|home| Path::new(&home).join(below_home)))
        };
        let data = || base("XDG_DATA_HOME", ".local/share").map(|data| data.join("agora"));
        let home = variable("AGORA_HOME").map(PathBuf::from).or_else(data).ok_or(Error::NoHome)?;
        let harmless = |name: &OsStr| {
            name.to_str().is_some_and(|name| HARMLESS.contains(&name) || name.starts_with("LC_"))
        };
        let gits = |name: &OsStr| {
            let begins = |name: &str| GITS_BEGIN.iter().any(|begin| name.starts_with(begin));
            name.to_str().is_some_and(|name| GITS.contains(&name) || begins(name))
        };
        let names = Vendor::ALL.into_iter().flat_map(Vendor::variables);
        Ok(Self {
            home: std::path::absolute(&home).unwrap_or(home),
            settings: base("XDG_CONFIG_HOME", ".config").map(|config| config.join("agora/agora.toml")),
            project_dir: variable(PROJECT_DIR).map(PathBuf::from),
            environment: variables.iter().filter(|(name, _)| harmless(name)).cloned().collect(),
            git_environment: variables.iter().filter(|(name, _)| gits(name)).cloned().collect(),
            logins: names.filter_map(|name| login(name, variable(name)?)).collect(),
            path: variable("PATH"),
            sockets: sockets(variable),
        })
    }

    /// Returns the settings that hold here, with workers that are this `agora` program: the user's, and over them what counts of
    /// the project's.
    pub fn settings(&self, program: &Path) -> Result<Settings, Error> {
        self.with_project(self.own_settings(program)?)
    }

    /// Returns the settings of this user, whatever a project says.
    pub(crate) fn own_settings(&self, program: &Path) -> Result<Settings, Error> {
        let settings = Settings {
            environment: self.environment.clone(),
            logins: self.logins.clone(),
            sockets: self.sockets.clone(),
            git_environment: self.git_environment.clone(),
            ..Settings::with_worker(program)
        };
        match &self.settings {
            Some(file) => settings.with_file(file),
            None => Ok(settings),
        }
    }

    /// Returns where programs are looked for.
    #[cfg(feature = "docker")]
    pub(crate) fn path(&self) -> Option<OsString> {
        self.path.clone()
    }

    /// Finds a program on the path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        agora_providers::program::on_path(self.path.as_ref()?, name)
    }
}

/// Returns where daemons listen: what `DOCKER_HOST` names and nothing else then, as for every program that speaks to Docker; or
/// the usual places of Docker and then of Podman.
fn sockets(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(host) = variable("DOCKER_HOST") {
        let socket = host.to_str().and_then(|host| host.strip_prefix("unix://")).map(PathBuf::from);
        return socket.into_iter().collect();
    }
    let below = |variable: Option<OsString>, path: &str| variable.map(|dir| Path::new(&dir).join(path));
    let docker = [
        Some("/var/run/docker.sock".into()),
        below(variable("XDG_RUNTIME_DIR"), "docker.sock"),
        below(variable("HOME"), ".docker/desktop/docker.sock"),
        below(variable("HOME"), ".docker/run/docker.sock"),
    ];
    let podman =
        [below(variable("XDG_RUNTIME_DIR"), "podman/podman.sock"), Some("/run/podman/podman.sock".into())];
    docker.into_iter().chain(podman).flatten().collect()
}

/// Takes a variable for a login. What is too short to be hidden in an output is none.
fn login(name: &str, value: OsString) -> Option<(VariableName, SecretValue)> {
    let value = SecretValue::new(value.into_string().ok()?, ShortSecrets::Refuse).ok()?;
    Some((name.parse().ok()?, value))
}

impl Agora {
    /// Opens what the `agora` command would open: `$AGORA_HOME` or the XDG data directory, with the user's `agora.toml`, and with
    /// the `agora` on the path for its workers. Without one on the path nothing can be dispatched, and everything else works.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use agora_engine::{Agora, Dispatch};
    ///
    /// let agora = Agora::open_default()?;
    /// let result = agora.dispatch(Dispatch::to("planner")).await?.wait().await?;
    /// println!("{}", result.output.text);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_default() -> Result<Self, Error> {
        let around = Surroundings::look()?;
        let agora = Self::open(&around.home);
        match around.program("agora") {
            Some(program) => Ok(agora.with_settings(around.settings(&program)?)),
            None => Ok(agora),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(variables: &[(&str, &str)]) -> Result<Surroundings, Error> {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Surroundings::among(&variables)
    }

    #[test]
    fn the_home_is_where_the_user_says_or_where_such_things_are() {
        let home = |variables: &[(&str, &str)]| among(variables).map(|found| found.home);
        let (user, data) = (("HOME", "/home/ann"), ("XDG_DATA_HOME", "/data"));
        assert_eq!(home(&[user, data, ("AGORA_HOME", "/own")]).unwrap(), Path::new("/own"));
        assert_eq!(home(&[user, data, ("AGORA_HOME", "")]).unwrap(), Path::new("/data/agora"));
        assert_eq!(home(&[user]).unwrap(), Path::new("/home/ann/.local/share/agora"));
        let relative = home(&[user, ("XDG_DATA_HOME", "data")]).unwrap();
        assert_eq!(relative, Path::new("/home/ann/.local/share/agora"), "a relative one is ignored");
        assert!(matches!(home(&[]), Err(Error::NoHome)));
        assert!(home(&[("AGORA_HOME", "here")]).unwrap().is_absolute());
    }

    #[test]
    fn a_daemon_that_is_named_is_the_only_one() {
        let sockets = |variables: &[(&str, &str)]| among(variables).unwrap().sockets;
        let user = ("HOME", "/home/ann");
        assert_eq!(sockets(&[user, ("DOCKER_HOST", "unix:///d.sock")]), [Path::new("/d.sock")]);
        assert!(
            sockets(&[user, ("DOCKER_HOST", "ssh://elsewhere")]).is_empty(),
            "files are not mounted there"
        );
        let usual = sockets(&[user, ("XDG_RUNTIME_DIR", "/run/user/7")]);
        assert!(usual.contains(&"/run/user/7/podman/podman.sock".into()), "{usual:?}");
        assert_eq!(usual[0], Path::new("/var/run/docker.sock"));
    }

    #[test]
    fn git_gets_what_it_reaches_other_machines_with() {
        let gets = [
            ("HOME", "/home/ann"),
            ("https_proxy", "http://proxy:3128"),
            ("NO_PROXY", "localhost"),
            ("GIT_SSL_CAINFO", "/ca.pem"),
            ("SSL_CERT_FILE", "/ca.pem"),
            ("GIT_ASKPASS", "/bin/ask"),
            ("SSH_AUTH_SOCK", "/agent"),
            ("GIT_SSH_COMMAND", "ssh -F /dev/null"),
        ];
        // Neither a key, nor another repository than the one that is meant.
        let not = [("ANTHROPIC_API_KEY", "x"), ("GIT_DIR", "/x"), ("GIT_INDEX_FILE", "/x")];
        let around = among(&[&gets[..], &not].concat()).unwrap();
        let passed = around.git_environment.iter().map(|(name, _)| name.to_str().unwrap());
        assert!(passed.eq(gets.map(|(name, _)| name)), "{:?}", around.git_environment);
    }

    #[test]
    fn workers_get_nothing_that_says_who_one_is() {
        let around = among(&[
            ("HOME", "/home/ann"),
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "x"),
            ("XDG_CONFIG_HOME", "/config"),
        ])
        .unwrap();
        let passed: Vec<_> = around.environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(passed, ["HOME", "PATH", "LC_ALL"]);
        assert_eq!(around.settings.as_deref(), Some(Path::new("/config/agora/agora.toml")));
        assert_eq!(around.program("sh").as_deref(), Some(Path::new("/bin/sh")));
        assert_eq!(around.program("no-such-program"), None);
    }
}
