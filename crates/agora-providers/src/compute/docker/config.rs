//! What a target that runs workers in containers says.

use std::path::PathBuf;

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

/// What a container's network reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Whatever the daemon lets containers reach.
    #[default]
    Open,
    /// Nothing but the container itself.
    None,
}
