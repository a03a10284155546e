//! A target whose workers run in containers.

use std::path::PathBuf;
#[cfg(feature = "docker")]
use std::sync::Arc;

#[cfg(feature = "docker")]
use agora_core::provider::compute::Compute as Runs;
#[cfg(feature = "docker")]
use agora_core::wall::Network;
#[cfg(feature = "docker")]
use agora_providers::Home;
use serde::Deserialize;

/// What `agora image build` makes when it is told no other name.
pub(crate) const IMAGE: &str = "agora/worker";

/// What runs in a container, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerTarget {
    /// Where its daemon listens. `None`: where daemons usually do.
    pub socket: Option<PathBuf>,
    /// A tag, which means what it means when a dispatch is accepted; or a name with a digest, or an image's id.
    pub image: String,
    /// Thousandths of a processor.
    pub milli_cpus: Option<u32>,
}

impl Default for ContainerTarget {
    fn default() -> Self {
        Self { socket: None, image: IMAGE.to_owned(), milli_cpus: None }
    }
}

#[cfg(feature = "docker")]
impl ContainerTarget {
    pub(super) fn compute(&self, home: &Home, usual: &[PathBuf], network: Network) -> Arc<dyn Runs> {
        use agora_providers::compute::{ContainerSettings, Containers};
        let settings = ContainerSettings {
            sockets: self.socket.clone().map_or_else(|| usual.to_vec(), |socket| vec![socket]),
            image: self.image.clone(),
            network,
            milli_cpus: self.milli_cpus,
        };
        Arc::new(Containers::new(home.clone(), settings))
    }
}

/// What workers are, as a file says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Compute {
    Process,
    Docker,
    /// The same, by Podman's socket.
    Podman,
}

/// What a target says that only means something for containers.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) compute: Option<Compute>,
    pub(super) image: Option<String>,
    pub(super) socket: Option<PathBuf>,
    pub(super) cpus: Option<f64>,
}

/// Lays what a target says over what was known of it. For one whose workers are processes it means nothing, and is refused.
pub(super) fn merge(
    name: &str,
    written: Written,
    known: Option<ContainerTarget>,
    sockets: &[PathBuf],
) -> Result<Option<ContainerTarget>, String> {
    let known = match written.compute {
        Some(Compute::Process) => None,
        Some(Compute::Docker) => Some(known.unwrap_or_default()),
        Some(Compute::Podman) => {
            let podman = sockets.iter().find(|socket| socket.ends_with("podman.sock") && socket.exists());
            Some(ContainerTarget { socket: podman.cloned(), ..known.unwrap_or_default() })
        }
        None => known,
    };
    let Some(known) = known else {
        let said = [
            ("image", written.image.is_some()),
            ("socket", written.socket.is_some()),
            ("cpus", written.cpus.is_some()),
        ];
        return match said.iter().find(|(_, said)| *said) {
            Some((key, _)) => Err(format!("`target.{name}.{key}` is for `compute = \"docker\"`")),
            None => Ok(None),
        };
    };
    if !cfg!(feature = "docker") {
        return Err(format!("`target.{name}` runs containers, and this agora was built without them"));
    }
    if written.image.as_ref().is_some_and(|image| image.trim().is_empty()) {
        return Err(format!("`target.{name}.image` is empty"));
    }
    if written.socket.as_ref().is_some_and(|socket| !socket.is_absolute()) {
        return Err(format!("`target.{name}.socket` is not an absolute path"));
    }
    let not_cpus =
        |cpus| format!("`target.{name}.cpus` is `{cpus}`, not a number of processors such as `2` or `0.5`");
    let cpus = written.cpus.map(|cpus| milli(cpus).ok_or_else(|| not_cpus(cpus)));
    Ok(Some(ContainerTarget {
        socket: written.socket.or(known.socket),
        image: written.image.unwrap_or(known.image),
        milli_cpus: cpus.transpose()?.or(known.milli_cpus),
    }))
}

/// Counts processors in thousandths.
fn milli(cpus: f64) -> Option<u32> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0.01 to 1024")]
    (0.01..=1024.0).contains(&cpus).then(|| (cpus * 1000.0).round() as u32)
}
