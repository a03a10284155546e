//! What a target that runs workers in containers says.

use std::path::PathBuf;

use agora_core::wall::Network;

/// Where containers run, and what each may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSettings {
    /// Where a daemon may listen: the first that answers is used.
    pub sockets: Vec<PathBuf>,
    /// A tag, a name with a digest, or an image's id.
    pub image: String,
    pub network: Network,
    /// Thousandths of a processor.
    pub milli_cpus: Option<u32>,
}
