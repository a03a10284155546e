//! `agora.toml`, the user's or a project's: which places to run there are, and how much may be kept.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use agora_core::Name;
use agora_core::limits::LEAST_MEMORY_BYTES;
use agora_core::route::Party;
use agora_core::wall::{Grant, Isolation, Network, Tools, Wish};
use agora_core::wire::manifest::Layers;
use agora_providers::notify::{Way, WayError};
use serde::Deserialize;

use super::container::{self, Compute, Written};
use super::mcp::WrittenMcp;
use super::route::{self, WrittenAnswers, WrittenRoute};
use super::{Settings, TargetSettings};

/// What the file may say. A key that is misspelt is refused by its name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    target: BTreeMap<String, Target>,
    store: Store,
    mcp: WrittenMcp,
    route: Vec<WrittenRoute>,
    group: BTreeMap<String, Vec<Party>>,
    answers: WrittenAnswers,
    /// How a person is told that something wants them.
    notify: Option<Vec<String>>,
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
    network: Option<WrittenNetwork>,
    tools: Option<WrittenTools>,
    grant: Option<Vec<Grant>>,
}

/// `open`, `none`, or a list of hosts: that comes later, and is understood so that it can be said.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`network` is \"open\" or \"none\"")]
enum WrittenNetwork {
    Word(Network),
    Hosts(Vec<String>),
}

/// `auto`, `none`, or a list of paths.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`tools` is \"auto\", \"none\" or a list of paths")]
enum WrittenTools {
    Word(ToolsWord),
    Paths(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ToolsWord {
    Auto,
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Store {
    max: Option<String>,
    overlay: Option<Layers>,
}

/// Why a file of settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Unreadable(io::Error),
    /// What is wrong, and where.
    #[error("{0}")]
    Wrong(String),
    #[error("it belongs to another user (uid {0}), and is never used")]
    Foreign(u32),
}

/// Lays what the file says over the settings. A file that is not there says nothing.
pub(super) fn lay(path: &Path, settings: &mut Settings) -> Result<(), SettingsError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SettingsError::Unreadable(error)),
    };
    lay_text(&text, folder(path), settings)
}

/// Returns the directory that a file lies in: commands in it are found from there.
pub(super) fn folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// Lays what the text of a file in a directory says over the settings.
pub(super) fn lay_text(text: &str, dir: &Path, settings: &mut Settings) -> Result<(), SettingsError> {
    let file = toml::from_str(text).map_err(|error| SettingsError::Wrong(in_a_line(text, &error)))?;
    lay_file(file, dir, settings)
}

/// Lays what is left of a file over the settings.
pub(super) fn lay_table(
    table: toml::Table,
    dir: &Path,
    settings: &mut Settings,
) -> Result<(), SettingsError> {
    let file = File::deserialize(table).map_err(|error| SettingsError::Wrong(error.message().to_owned()))?;
    lay_file(file, dir, settings)
}

fn lay_file(file: File, dir: &Path, settings: &mut Settings) -> Result<(), SettingsError> {
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
    if let Some(ways) = file.notify {
        let ways: Result<Vec<Way>, WayError> = ways.iter().map(|way| way.parse()).collect();
        settings.notify = ways.map_err(|error| SettingsError::Wrong(format!("`notify`: {error}")))?;
    }
    file.mcp.lay(&mut settings.mcp).map_err(SettingsError::Wrong)?;
    settings.workspace_layers = file.store.overlay.unwrap_or(settings.workspace_layers);
    let written = route::Written { routes: file.route, groups: file.group, answers: file.answers };
    route::lay(written, dir, settings).map_err(SettingsError::Wrong)
}

/// Says what is wrong and where, without a drawing.
pub(super) fn in_a_line(text: &str, error: &toml::de::Error) -> String {
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
    let written =
        Written { compute: target.compute, image: target.image, socket: target.socket, cpus: target.cpus };
    let container = container::merge(name, written, known.container, sockets)?;
    let wall = wall(name, target.isolation, target.network, target.tools, target.grant, known.wall)?;
    if container.is_some() && (!wall.grants.is_empty() || wall.tools != Tools::default()) {
        return Err(format!(
            "`target.{name}` runs containers, which have what is in their image: neither `grant` nor `tools`"
        ));
    }
    let memory = target
        .memory
        .as_deref()
        .map(|text| bytes(text).ok_or_else(|| not_a_size(&format!("target.{name}.memory"), text)));
    if target.max_concurrent == Some(0) {
        return Err(format!("`target.{name}.max_concurrent` is 0: nothing would ever start"));
    }
    let memory = memory.transpose()?;
    if let Some(text) = target.memory.filter(|_| memory.is_some_and(|bytes| bytes < LEAST_MEMORY_BYTES)) {
        return Err(format!("`target.{name}.memory` is `{text}`: nothing starts with less than `4MiB`"));
    }
    if target.pids == Some(0) {
        return Err(format!("`target.{name}.pids` is 0: nothing would ever start"));
    }
    Ok(TargetSettings {
        wall,
        max_concurrent: target.max_concurrent.unwrap_or(known.max_concurrent),
        memory_bytes: memory.or(known.memory_bytes),
        processes: target.pids.or(known.processes),
        container,
    })
}

fn wall(
    name: &str,
    isolation: Option<Isolation>,
    network: Option<WrittenNetwork>,
    tools: Option<WrittenTools>,
    grant: Option<Vec<Grant>>,
    known: Wish,
) -> Result<Wish, String> {
    let network = match network {
        None => known.network,
        Some(WrittenNetwork::Word(network)) => network,
        Some(WrittenNetwork::Hosts(_)) => {
            return Err(format!(
                "`target.{name}.network` is a list of hosts, which comes later; now it is `open` or `none`"
            ));
        }
    };
    let tools = match tools {
        None => known.tools,
        Some(WrittenTools::Word(ToolsWord::Auto)) => Tools::Auto,
        Some(WrittenTools::Word(ToolsWord::None)) => Tools::None,
        Some(WrittenTools::Paths(paths)) => match paths.iter().find(|path| !is_plain(path)) {
            Some(path) => {
                return Err(format!(
                    "`target.{name}.tools` has `{path}`, not a path such as `~/.sdkman` or `/data/bin`"
                ));
            }
            None => Tools::Paths(paths),
        },
    };
    Ok(Wish {
        isolation: isolation.unwrap_or(known.isolation),
        network,
        tools,
        grants: grant.unwrap_or(known.grants),
    })
}

fn is_plain(path: &str) -> bool {
    (path.starts_with('/') || path.starts_with("~/")) && !path.split('/').any(|part| part == "..")
}

fn not_a_size(key: &str, text: &str) -> String {
    format!("`{key}` is `{text}`, not a size such as `512MiB` or `4GiB`")
}

/// Reads a size: a whole number with `B`, `KiB`, `MiB`, `GiB` or `TiB`.
pub(super) fn bytes(text: &str) -> Option<u64> {
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
    use super::super::ContainerTarget;
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
            "[target.local]\nmax_concurrent = 5\n[target.big]\nmemory = \"4GiB\"\n[store]\nmax = \"1GiB\"\noverlay = \"never\"\n",
        )
        .unwrap();
        let target = |name: &str| settings.targets[&name.parse::<Name>().unwrap()].clone();
        assert_eq!(target("local").max_concurrent, 5);
        assert_eq!((target("big").max_concurrent, target("big").memory_bytes), (2, Some(4 << 30)));
        assert_eq!((settings.store_max_bytes, settings.workspace_layers), (1 << 30, Layers::Never));
    }

    #[test]
    fn a_person_is_told_by_the_ways_that_the_file_names() {
        assert_eq!(read("").unwrap().notify, []);
        let settings = read("notify = [\"desktop\", \"command:post --to me\"]").unwrap();
        assert_eq!(
            settings.notify,
            [Way::Desktop, Way::Command(vec!["post".into(), "--to".into(), "me".into()])]
        );
    }

    #[test]
    fn a_target_may_run_workers_in_containers() {
        let settings = read(
            "[target.box]\ncompute = \"docker\"\nimage = \"a@sha256:1\"\ncpus = 1.5\nnetwork = \"none\"\n[target.plain]\ncompute = \"docker\"",
        )
        .unwrap();
        let container = |name: &str| settings.targets[&name.parse::<Name>().unwrap()].container.clone();
        let expected = ContainerTarget { image: "a@sha256:1".into(), milli_cpus: Some(1500), socket: None };
        assert_eq!(container("box"), Some(expected));
        assert_eq!(container("plain"), Some(ContainerTarget::default()));
        assert_eq!(container("local"), None);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for wrong in [
            "[target.local]\nisolation = \"some\"",
            "[target.local]\nnetwork = \"closed\"",
            "[target.local]\nnetwork = [\"api.anthropic.com\"]",
            "[target.local]\ngrant = [\"~/.ssh:ro\"]",
            "[target.local]\ngrant = [\"~/.m2\"]",
            "[target.local]\ntools = [\"bin\"]",
            "[target.local]\nmax_concurent = 1",
            "[target.local]\nmax_concurrent = 0",
            "[target.local]\nmemory = \"4 GB\"",
            "[target.local]\nmemory = \"0B\"",
            "[target.local]\nmemory = \"4095KiB\"",
            "[target.local]\npids = 0",
            "[target.local]\nimage = \"x\"",
            "[target.local]\ncompute = \"docker\"\ncpus = 0",
            "[target.local]\ncompute = \"docker\"\nsocket = \"docker.sock\"",
            "[target.local]\ncompute = \"docker\"\nnetwork = \"some\"",
            "[target.local]\ncompute = \"docker\"\ngrant = [\"~/.m2:ro\"]",
            "[target.local]\ncompute = \"kubernetes\"",
            "[target.\"a b\"]",
            "notify = [\"mail\"]",
            "notify = \"desktop\"",
            "notify = [\"command:\"]",
            "max = 1",
            "[",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_wall_is_what_the_file_asks_for() {
        let settings = read(
            "[target.local]\nisolation = \"strict\"\nnetwork = \"none\"\ntools = \"none\"\ngrant = [\"~/.m2:ro\"]\n",
        )
        .unwrap();
        let wall = &settings.targets[&"local".parse::<Name>().unwrap()].wall;
        assert_eq!((wall.isolation, wall.network), (Isolation::Strict, Network::None));
        assert_eq!((&wall.tools, wall.grants.len()), (&Tools::None, 1));
        let why = read("[target.local]\nnetwork = [\"api.anthropic.com\"]").unwrap_err();
        assert!(why.contains("comes later"), "{why}");
        let why = read("[target.local]\ngrant = [\"~/.ssh:ro\"]").unwrap_err();
        assert!(why.contains("never visible"), "{why}");
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
