//! A target whose workers run in containers.

use std::path::PathBuf;
#[cfg(feature = "docker")]
use std::sync::Arc;

#[cfg(feature = "docker")]
use agora_core::provider::compute::Compute;
#[cfg(feature = "docker")]
use agora_providers::Home;

/// What `agora image build` makes when it is told no other name.
pub(crate) const IMAGE: &str = "agora/worker";

/// What runs in a container, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerTarget {
    /// Where its daemon listens. `None`: where daemons usually do.
    pub socket: Option<PathBuf>,
    /// A tag, which means what it means when a dispatch is accepted; or a name with a digest, or an image's id.
    pub image: String,
    pub network: Network,
    /// Thousandths of a processor.
    pub milli_cpus: Option<u32>,
}

/// What agents reach by the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    Open,
    None,
}

impl Default for ContainerTarget {
    fn default() -> Self {
        Self { socket: None, image: IMAGE.to_owned(), network: Network::Open, milli_cpus: None }
    }
}

#[cfg(feature = "docker")]
impl ContainerTarget {
    pub(super) fn compute(&self, home: &Home, usual: &[PathBuf]) -> Arc<dyn Compute> {
        use agora_providers::compute::{ContainerSettings, Containers, Network as Reach};
        let settings = ContainerSettings {
            sockets: self.socket.clone().map_or_else(|| usual.to_vec(), |socket| vec![socket]),
            image: self.image.clone(),
            network: match self.network {
                Network::Open => Reach::Open,
                Network::None => Reach::None,
            },
            milli_cpus: self.milli_cpus,
        };
        Arc::new(Containers::new(home.clone(), settings))
    }
}
