//! Images that workers run in: finding out which one a name means, and making one from this machine's programs.

mod archive;
mod elf;
mod native;
mod rootfs;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agora_core::provider::compute::{ComputeError, ImageId};
use bollard::query_parameters::ImportImageOptionsBuilder;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use super::client::{Daemon, DaemonError};
use crate::blocking::blocking;
use archive::Archive;
use rootfs::RootFs;

/// Which agora's worker is in an image.
const VERSION_LABEL: &str = "dev.agora.version";
const WITH_LABEL: &str = "dev.agora.with";

/// What people expect of a shell, taken from this machine as far as it is there.
const TOOLS: [&str; 44] = [
    "awk", "basename", "cat", "chmod", "cp", "cut", "date", "diff", "dirname", "echo", "env", "expr", "find",
    "grep", "gzip", "head", "id", "ln", "ls", "mkdir", "mktemp", "mv", "paste", "patch", "printf", "pwd",
    "readlink", "realpath", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "tail", "tar", "tee",
    "test", "touch", "tr", "uniq", "wc", "xargs",
];
/// The word for all of them.
const TOOLS_WORD: &str = "tools";

/// What an image is to be made of.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// With or without a tag.
    pub name: String,
    /// The program that is the worker: this `agora`.
    pub worker: PathBuf,
    pub version: String,
    /// Programs by their names, or `tools` for what people expect of a shell.
    pub with: Vec<String>,
    /// Where programs are looked for.
    pub path: OsString,
}

/// An image that was made.
#[derive(Clone, Debug)]
pub struct Built {
    /// With its tag.
    pub name: String,
    pub id: ImageId,
    pub bytes: u64,
    /// What was put in, and from where.
    pub programs: Vec<(String, PathBuf)>,
}

/// Says why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("`{0}` cannot be the name of an image")]
    Name(String),
    #[error("there is no `{0}` on this machine's path")]
    NoProgram(String),
    #[error("`{name}` (`{}`) cannot be put into an image", .path.display())]
    Program { name: String, path: PathBuf, source: io::Error },
    #[error("the files of the image cannot be read")]
    Files(#[source] io::Error),
    #[error("the daemon that runs containers cannot be used")]
    Daemon(#[source] DaemonError),
}

/// Makes an image and loads it into the daemon.
pub async fn build(daemon: &Daemon, recipe: Recipe) -> Result<Built, BuildError> {
    let api = daemon.connect().await.map_err(BuildError::Daemon)?.api.clone();
    let name = tagged(&recipe.name)?;
    let (archive, programs) = blocking({
        let name = name.clone();
        move || gather(&recipe, &name)
    })
    .await?;
    let (id, bytes) = (ImageId(archive.id()), archive.layer_bytes());
    let (sender, receiver) = mpsc::channel(4);
    let writing = tokio::task::spawn_blocking(move || {
        let mut pieces = io::BufWriter::with_capacity(1 << 20, Pieces(sender));
        archive.write(&mut pieces).and_then(|()| pieces.flush())
    });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece: Vec<u8>| (Ok::<_, io::Error>(piece.into()), receiver))
    });
    let options = ImportImageOptionsBuilder::new().quiet(true).build();
    let mut told = std::pin::pin!(api.import_image_stream(options, pieces, None));
    let mut refused = None;
    while let Some(told) = told.next().await {
        refused = refused.or(told.err());
    }
    // What could not be read comes first: the daemon only saw an archive that ended early.
    match writing.await.map_err(io::Error::other) {
        Ok(Err(error)) | Err(error) if refused.is_none() || error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(BuildError::Files(error));
        }
        _ => {}
    }
    if let Some(error) = refused {
        return Err(BuildError::Daemon(error.into()));
    }
    api.inspect_image(&name).await.map_err(|error| BuildError::Daemon(error.into()))?;
    Ok(Built { name, id, bytes, programs })
}

fn gather(recipe: &Recipe, name: &str) -> Result<(Archive, Vec<(String, PathBuf)>), BuildError> {
    let mut files = RootFs::new(rustix::process::geteuid().as_raw());
    let unfit = |name: &str, path: &Path, source| BuildError::Program {
        name: name.to_owned(),
        path: path.to_owned(),
        source,
    };
    files.worker(&recipe.worker).map_err(|error| unfit("agora", &recipe.worker, error))?;
    let mut programs = Vec::new();
    for wanted in wanted(recipe) {
        let Some(path) = rootfs::find(&wanted.name, &recipe.path) else {
            if wanted.must {
                return Err(BuildError::NoProgram(wanted.name));
            }
            continue;
        };
        let path = native::behind(&wanted.name, &path).unwrap_or(path);
        match files.tool(&wanted.name, &path) {
            Ok(()) => programs.push((wanted.name, path)),
            Err(error) if wanted.must => return Err(unfit(&wanted.name, &path, error)),
            Err(_) => {}
        }
    }
    let with: Vec<&str> = programs.iter().map(|(name, _)| name.as_str()).collect();
    let labels = [(VERSION_LABEL, recipe.version.clone()), (WITH_LABEL, with.join(","))];
    let archive = Archive::new(files, name, &labels).map_err(BuildError::Files)?;
    Ok((archive, programs))
}

/// A program that is looked for.
struct Wanted {
    name: String,
    /// Somebody asked for it by its name.
    must: bool,
}

fn wanted(recipe: &Recipe) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    let mut add = |name: &str, must: bool| match all.iter_mut().find(|known| known.name == name) {
        Some(known) => known.must |= must,
        None => all.push(Wanted { name: name.to_owned(), must }),
    };
    for name in &recipe.with {
        if name == TOOLS_WORD {
            ["sh", "bash"].iter().chain(&TOOLS).for_each(|tool| add(tool, false));
        } else {
            add(name, true);
            native::companions(name).iter().for_each(|companion| add(companion, false));
        }
    }
    // The order in which they were asked for is no part of what is made.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// Gives a name its tag. What is not a name could mean another image.
fn tagged(name: &str) -> Result<String, BuildError> {
    let allowed =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "._-/:".contains(letter);
    let fine = (1..=200).contains(&name.len())
        && name.chars().all(allowed)
        && name.split(['/', ':']).all(|part| part.starts_with(|first: char| first.is_ascii_alphanumeric()));
    if !fine {
        return Err(BuildError::Name(name.to_owned()));
    }
    let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    Ok(if has_tag { name.to_owned() } else { format!("{name}:latest") })
}

/// Passes what is written on, in pieces.
struct Pieces(mpsc::Sender<Vec<u8>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds out which image a name means now. One with another agora's worker is refused: the two would not understand each other.
pub(super) async fn resolve(daemon: &Daemon, name: &str) -> Result<ImageId, ComputeError> {
    let api = &daemon.connect().await.map_err(DaemonError::unreachable)?.api;
    let found = match api.inspect_image(name).await.map_err(DaemonError::from) {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Err(ComputeError::ImageMissing(name.to_owned())),
        Err(error) => return Err(error.unreachable()),
    };
    let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
    let ours = env!("CARGO_PKG_VERSION");
    match labels.get(VERSION_LABEL).filter(|version| *version != ours) {
        Some(version) => Err(ComputeError::ImageUnfit {
            image: name.to_owned(),
            why: format!("its worker is of agora {version}, and this is {ours}"),
        }),
        // Podman leaves the algorithm out.
        None => Ok(ImageId(match found.id {
            Some(id) if id.len() == 64 && !id.contains(':') => format!("sha256:{id}"),
            Some(id) => id,
            None => name.to_owned(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(with: &[&str]) -> Recipe {
        Recipe {
            name: "agora/worker".into(),
            worker: "/bin/sh".into(),
            version: "1".into(),
            with: with.iter().map(|name| (*name).to_owned()).collect(),
            path: "/usr/bin:/bin".into(),
        }
    }

    fn bytes(with: &[&str]) -> (String, Vec<u8>) {
        let (archive, _) = gather(&recipe(with), "agora/worker:latest").unwrap();
        let mut bytes = Vec::new();
        archive.write(&mut bytes).unwrap();
        (archive.id(), bytes)
    }

    #[test]
    fn the_same_inputs_are_the_same_image() {
        let one = bytes(&["sh", "cat"]);
        assert_eq!(one, bytes(&["cat", "sh"]));
        assert_ne!(one.0, bytes(&["sh"]).0);
    }

    #[test]
    fn an_archive_holds_what_it_names() {
        let (id, bytes) = bytes(&["cat"]);
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut names = Vec::new();
        let mut layer = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            if name == "layer.tar" {
                io::Read::read_to_end(&mut entry, &mut layer).unwrap();
            }
            names.push(name);
        }
        assert_eq!(
            names,
            [
                format!("{}.json", id.trim_start_matches("sha256:")),
                "manifest.json".into(),
                "layer.tar".into()
            ]
        );
        let inside: Vec<String> = tar::Archive::new(layer.as_slice())
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        for expected in ["usr/local/bin/agora", "usr/bin/cat", "etc/passwd", "agora/work/", "bin"] {
            assert!(inside.iter().any(|name| name == expected), "{expected}: {inside:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let missing = gather(&recipe(&["no-such-program"]), "x:1").unwrap_err();
        assert!(matches!(missing, BuildError::NoProgram(name) if name == "no-such-program"));
        assert!(gather(&recipe(&["tools"]), "x:1").is_ok(), "of the usual tools what is there is enough");
    }

    #[test]
    fn a_name_has_a_tag() {
        assert_eq!(tagged("agora/worker").unwrap(), "agora/worker:latest");
        assert_eq!(tagged("localhost:5000/x").unwrap(), "localhost:5000/x:latest");
        assert_eq!(tagged("x:1").unwrap(), "x:1");
        for wrong in ["", "A", "a b", "../x", "x@sha256:1", "-x"] {
            assert!(tagged(wrong).is_err(), "{wrong}");
        }
    }
}
