//! `agora.toml`, the user's: which places to run there are, and how much may be kept.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use agora_core::Name;
use serde::Deserialize;

use super::{ContainerTarget, Network, Settings, TargetSettings};

/// What the file may say. A key that is misspelt is refused by its name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    target: BTreeMap<String, Target>,
    store: Store,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Target {
    compute: Option<Compute>,
    isolation: Option<Isolation>,
    max_concurrent: Option<u32>,
    memory: Option<String>,
    pids: Option<u32>,
    image: Option<String>,
    socket: Option<PathBuf>,
    cpus: Option<f64>,
    network: Option<Reach>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Compute {
    Process,
    Docker,
    /// The same, by Podman's socket.
    Podman,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Reach {
    Open,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Isolation {
    Auto,
    Strict,
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Store {
    max: Option<String>,
}

/// Why a file of settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Unreadable(io::Error),
    /// What is wrong, and where.
    #[error("{0}")]
    Wrong(String),
}

/// Lays what the file says over the settings. A file that is not there says nothing.
pub(super) fn lay(path: &Path, settings: &mut Settings) -> Result<(), SettingsError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SettingsError::Unreadable(error)),
    };
    let file: File = toml::from_str(&text).map_err(|error| SettingsError::Wrong(in_a_line(&text, &error)))?;
    for (name, target) in file.target {
        let parsed: Name = match name.parse() {
            Ok(parsed) => parsed,
            Err(error) => return Err(SettingsError::Wrong(format!("{error}"))),
        };
        let known = settings.targets.remove(&parsed).unwrap_or_default();
        let merged = merge(&name, target, known, &settings.sockets).map_err(SettingsError::Wrong)?;
        settings.targets.insert(parsed, merged);
    }
    if let Some(max) = file.store.max {
        let max = bytes(&max).ok_or_else(|| SettingsError::Wrong(not_a_size("store.max", &max)))?;
        settings.store_max_bytes = max;
    }
    Ok(())
}

/// Says what is wrong and where, without a drawing.
fn in_a_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1));
    format!("{}{}", line.unwrap_or_default(), error.message().trim_end())
}

fn merge(
    name: &str,
    target: Target,
    known: TargetSettings,
    sockets: &[PathBuf],
) -> Result<TargetSettings, String> {
    let container = container(name, &target, known.container.clone(), sockets)?;
    if target.isolation == Some(Isolation::Strict) {
        return Err(format!("`target.{name}.isolation` is `strict`, and this agora has no sandbox yet"));
    }
    let memory = target
        .memory
        .as_deref()
        .map(|text| bytes(text).ok_or_else(|| not_a_size(&format!("target.{name}.memory"), text)));
    if target.max_concurrent == Some(0) {
        return Err(format!("`target.{name}.max_concurrent` is 0: nothing would ever start"));
    }
    Ok(TargetSettings {
        max_concurrent: target.max_concurrent.unwrap_or(known.max_concurrent),
        memory_bytes: memory.transpose()?.or(known.memory_bytes),
        processes: target.pids.or(known.processes),
        container,
    })
}

/// Reads what a target says of containers. For one whose workers are processes these keys mean nothing, and are refused.
fn container(
    name: &str,
    target: &Target,
    known: Option<ContainerTarget>,
    sockets: &[PathBuf],
) -> Result<Option<ContainerTarget>, String> {
    let known = match target.compute {
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
            ("image", target.image.is_some()),
            ("socket", target.socket.is_some()),
            ("cpus", target.cpus.is_some()),
            ("network", target.network.is_some()),
        ];
        return match said.iter().find(|(_, said)| *said) {
            Some((key, _)) => Err(format!("`target.{name}.{key}` is for `compute = \"docker\"`")),
            None => Ok(None),
        };
    };
    if !cfg!(feature = "docker") {
        return Err(format!("`target.{name}.compute` is Docker, and this agora was built without it"));
    }
    if target.image.as_ref().is_some_and(|image| image.trim().is_empty()) {
        return Err(format!("`target.{name}.image` is empty"));
    }
    if target.socket.as_ref().is_some_and(|socket| !socket.is_absolute()) {
        return Err(format!("`target.{name}.socket` is not an absolute path"));
    }
    let cpus = target.cpus.map(|cpus| {
        milli(cpus).ok_or_else(|| {
            format!("`target.{name}.cpus` is `{cpus}`, not a number of processors such as `2` or `0.5`")
        })
    });
    Ok(Some(ContainerTarget {
        socket: target.socket.clone().or(known.socket),
        image: target.image.clone().unwrap_or(known.image),
        network: match target.network {
            Some(Reach::Open) => Network::Open,
            Some(Reach::None) => Network::None,
            None => known.network,
        },
        milli_cpus: cpus.transpose()?.or(known.milli_cpus),
    }))
}

/// Counts processors in thousandths.
fn milli(cpus: f64) -> Option<u32> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0.01 to 1024")]
    (0.01..=1024.0).contains(&cpus).then(|| (cpus * 1000.0).round() as u32)
}

fn not_a_size(key: &str, text: &str) -> String {
    format!("`{key}` is `{text}`, not a size such as `512MiB` or `4GiB`")
}

/// Reads a size: a whole number with `B`, `KiB`, `MiB`, `GiB` or `TiB`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agora.toml");
        std::fs::write(&path, text).unwrap();
        let mut settings = Settings::with_worker("/bin/agora");
        lay(&path, &mut settings).map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_said_is_laid_over_the_defaults() {
        let settings = read(
            "[target.local]\nmax_concurrent = 5\n[target.big]\nmemory = \"4GiB\"\n[store]\nmax = \"1GiB\"\n",
        )
        .unwrap();
        let target = |name: &str| settings.targets[&name.parse::<Name>().unwrap()].clone();
        assert_eq!(target("local").max_concurrent, 5);
        assert_eq!((target("big").max_concurrent, target("big").memory_bytes), (2, Some(4 << 30)));
        assert_eq!(settings.store_max_bytes, 1 << 30);
    }

    #[test]
    fn a_target_may_run_workers_in_containers() {
        let settings = read(
            "[target.box]\ncompute = \"docker\"\nimage = \"a@sha256:1\"\ncpus = 1.5\nnetwork = \"none\"\n[target.plain]\ncompute = \"docker\"",
        )
        .unwrap();
        let container = |name: &str| settings.targets[&name.parse::<Name>().unwrap()].container.clone();
        let expected = ContainerTarget {
            image: "a@sha256:1".into(),
            milli_cpus: Some(1500),
            network: Network::None,
            socket: None,
        };
        assert_eq!(container("box"), Some(expected));
        assert_eq!(container("plain"), Some(ContainerTarget::default()));
        assert_eq!(container("local"), None);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for wrong in [
            "[target.local]\nisolation = \"strict\"",
            "[target.local]\nmax_concurent = 1",
            "[target.local]\nmax_concurrent = 0",
            "[target.local]\nmemory = \"4 GB\"",
            "[target.local]\nimage = \"x\"",
            "[target.local]\ncompute = \"docker\"\ncpus = 0",
            "[target.local]\ncompute = \"docker\"\nsocket = \"docker.sock\"",
            "[target.local]\ncompute = \"docker\"\nnetwork = \"some\"",
            "[target.local]\ncompute = \"kubernetes\"",
            "[target.\"a b\"]",
            "max = 1",
            "[",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_that_is_misspelt_is_named_with_its_line() {
        let why = read("[target.local]\nmax_concurent = 1").unwrap_err();
        assert!(why.starts_with("line 2: unknown field `max_concurent`, expected one of"), "{why:?}");
        assert!(!why.contains('\n'));
    }

    #[test]
    fn sizes() {
        assert_eq!(
            ["10", "1KiB", "2 MiB", "x", "1MB", "99999999TiB"].map(bytes),
            [Some(10), Some(1024), Some(2 << 20), None, None, None]
        );
    }
}
