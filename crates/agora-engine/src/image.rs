//! Images that workers run in, made from this machine's programs.

use std::path::Path;

use agora_providers::compute::Daemon;
use agora_providers::compute::image::{self, Recipe};
pub use agora_providers::compute::image::{BuildError, Built};

use crate::error::Error;
use crate::settings::{ContainerTarget, Settings};
use crate::surroundings::Surroundings;

/// What an image is to be made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRequest {
    /// `None`: what a target means that names no image.
    pub name: Option<String>,
    /// Programs by their names, or `tools` for what people expect of a shell.
    pub with: Vec<String>,
    /// Whose daemon gets it. `None`: the first that answers at the usual places.
    pub target: Option<String>,
}

impl Surroundings {
    /// Makes an image with this `agora` program as its worker, and loads it into Docker or Podman. The same programs make the same
    /// image. Needs a tokio runtime with input and output.
    pub async fn build_image(&self, program: &Path, request: ImageRequest) -> Result<Built, Error> {
        let settings = self.settings(program)?;
        let target = request.target.map(|name| find(&settings, &name)).transpose()?;
        let named = target.as_ref().map(|target| target.image.clone());
        let recipe = Recipe {
            name: request.name.or(named).unwrap_or_else(|| ContainerTarget::default().image),
            worker: program.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            with: request.with,
            path: self.path().unwrap_or_default(),
        };
        let sockets = match target.and_then(|target| target.socket) {
            Some(socket) => vec![socket],
            None => settings.sockets.clone(),
        };
        image::build(&Daemon::at(sockets), recipe).await.map_err(Error::Image)
    }
}

/// Finds a target that runs containers.
fn find(settings: &Settings, name: &str) -> Result<ContainerTarget, Error> {
    let found = settings.targets.iter().find(|(known, _)| known.as_str() == name);
    match found.map(|(_, target)| &target.container) {
        Some(Some(container)) => Ok(container.clone()),
        Some(None) => {
            let why = format!("the workers of `{name}` run in no container");
            Err(Error::Request { field: "target", why })
        }
        None => Err(Error::Request { field: "target", why: format!("there is no target `{name}`") }),
    }
}
