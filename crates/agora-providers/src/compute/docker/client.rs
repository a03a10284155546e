//! The daemon: where it listens, what it is, and what its refusals mean.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agora_core::provider::compute::ComputeError;
use agora_core::provider::{Outage, Unavailable};
use bollard::errors::Error as ApiError;
use bollard::models::SystemVersion;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::OnceCell;

/// How long a daemon may take for an answer. Removing a container with a large workspace in its cache takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a daemon says of itself is a few kilobytes.
const LONGEST_INFO: u64 = 1 << 20;

/// Docker or Podman, found when it is first needed.
#[derive(Clone, Debug)]
pub struct Daemon {
    sockets: Arc<[PathBuf]>,
    connected: Arc<OnceCell<Connected>>,
}

/// A daemon that answered.
#[derive(Clone, Debug)]
pub(super) struct Connected {
    pub(super) api: Docker,
    pub(super) kind: Kind,
    /// Its root is the user who started it.
    pub(super) rootless: bool,
}

/// Whose daemon it is. They speak the same language, with two accents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Docker,
    Podman,
}

/// Why a daemon did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("no daemon listens: there is no socket at {}", list(.0))]
    NoSocket(Vec<PathBuf>),
    #[error("`{}` does not answer", .socket.display())]
    Silent { socket: PathBuf, source: Box<ApiError> },
    #[error("it took a question, and never answered")]
    Mute,
    #[error("it answered {status}: {message}")]
    Refused { status: u16, message: String },
    #[error("it did not answer as it should")]
    Strange(#[source] Box<ApiError>),
}

fn list(sockets: &[PathBuf]) -> String {
    sockets.iter().map(|socket| format!("`{}`", socket.display())).collect::<Vec<_>>().join(", ")
}

impl Daemon {
    pub fn at(sockets: Vec<PathBuf>) -> Self {
        Self { sockets: sockets.into(), connected: Arc::default() }
    }

    pub(super) async fn connect(&self) -> Result<&Connected, DaemonError> {
        self.connected.get_or_try_init(|| self.find()).await
    }

    async fn find(&self) -> Result<Connected, DaemonError> {
        let mut silent = None;
        for socket in self.sockets.iter().filter(|socket| socket.exists()) {
            let path = socket.to_string_lossy();
            let connected = async {
                let api = Docker::connect_with_unix(&path, PATIENCE.as_secs(), API_DEFAULT_VERSION)?;
                let api = api.negotiate_version().await?;
                let kind = Kind::of(&api.version().await?);
                let options = api.info().await?.security_options.unwrap_or_default();
                let rootless = options.iter().any(|option| option.contains("rootless"))
                    || (kind == Kind::Podman && says_rootless(socket).await?);
                Ok(Connected { api, kind, rootless })
            };
            match connected.await {
                Ok(connected) => return Ok(connected),
                Err(source) => {
                    silent.get_or_insert(DaemonError::Silent {
                        socket: socket.clone(),
                        source: Box::new(source),
                    });
                }
            }
        }
        Err(silent.unwrap_or_else(|| DaemonError::NoSocket(self.sockets.to_vec())))
    }
}

/// Podman says it in a field of its own, which the client knows nothing of; only new versions say it as Docker does.
async fn says_rootless(socket: &Path) -> io::Result<bool> {
    let asked = async {
        let mut stream = UnixStream::connect(socket).await?;
        // So old that the answer comes in one piece, and the connection ends with it.
        stream.write_all(b"GET /info HTTP/1.0\r\nHost: podman\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.take(LONGEST_INFO).read_to_end(&mut answer).await?;
        Ok(answer)
    };
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let answer: Vec<u8> = tokio::time::timeout(PATIENCE, asked).await.map_err(late).flatten()?;
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |end| end + 4);
    let about: PodmanInfo = serde_json::from_slice(answer.get(body..).unwrap_or_default())?;
    Ok(about.rootless)
}

#[derive(serde::Deserialize)]
struct PodmanInfo {
    #[serde(rename = "Rootless", default)]
    rootless: bool,
}

impl Kind {
    fn of(version: &SystemVersion) -> Self {
        let parts = version.components.iter().flatten();
        let podman = parts.into_iter().any(|part| part.name.to_lowercase().contains("podman"));
        if podman { Self::Podman } else { Self::Docker }
    }
}

impl From<ApiError> for DaemonError {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::DockerResponseServerError { status_code: status, message } => {
                Self::Refused { status, message: message.trim().to_owned() }
            }
            other => Self::Strange(Box::new(other)),
        }
    }
}

impl DaemonError {
    /// Tells whether what was asked about is not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Makes an error of it that says what was being done.
    pub(super) fn doing(self, doing: &str) -> Unavailable {
        let denied = match &self {
            Self::Silent { source, .. } | Self::Strange(source) => is_denied(source),
            Self::NoSocket(_) | Self::Mute | Self::Refused { .. } => false,
        };
        let outage = if denied { Outage::Denied } else { Outage::Failed };
        Unavailable { doing: doing.to_owned(), outage, source: Box::new(self) }
    }

    pub(super) fn unreachable(self) -> ComputeError {
        ComputeError::Unreachable(self.doing("use the daemon that runs containers"))
    }
}

/// Tells whether this user may not speak to the socket, at any depth of the error.
fn is_denied(error: &ApiError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        {
            return true;
        }
        cause = error.source();
    }
    false
}
