//! The programs of a machine beside the system's own: what the path names, what that links to, and the roots of known tools.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where the tools of a home are, from the home on. Of some only parts, because the rest is a login or is written to.
const ROOTS: [&str; 33] = [
    ".local/bin",
    ".local/lib",
    ".local/share/claude",
    ".claude/local",
    ".nvm",
    ".fnm",
    ".local/share/fnm",
    ".local/share/pnpm",
    ".npm-global",
    ".volta",
    ".bun/bin",
    ".bun/install/global",
    ".deno/bin",
    ".rustup",
    ".cargo/bin",
    ".cargo/env",
    ".cargo/config.toml",
    ".cargo/registry",
    ".cargo/git",
    ".local/share/uv",
    ".pyenv",
    ".local/share/mise",
    ".asdf",
    ".rbenv",
    ".sdkman/candidates",
    ".jenv",
    "go",
    "sdk",
    ".goenv",
    ".ghcup",
    ".opam",
    ".juliaup",
    ".dotnet",
];

/// What a prefix has beside its `bin`, and the programs there need.
const BESIDE_BIN: [&str; 4] = ["lib", "lib64", "libexec", "share"];
/// A directory of programs has hundreds. One with more links is no directory of programs.
const MOST_ENTRIES: usize = 20_000;
/// A link to a link to a link: more than package managers make.
const HOPS: usize = 8;

/// A path as it is written, and the true one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) written: PathBuf,
    pub(super) real: PathBuf,
}

impl Tool {
    pub(super) fn at(written: PathBuf) -> Option<Self> {
        let real = fs::canonicalize(&written).ok()?;
        Some(Self { written, real })
    }
}

/// Returns the roots of known tools that are there.
pub(super) fn known(home: &Path) -> Vec<Tool> {
    ROOTS.iter().filter_map(|root| Tool::at(home.join(root))).collect()
}

/// Returns the directories that the path names, but for those that `seen` has already, and what is in them by links only.
pub(super) fn on_path(path: Option<&OsStr>, home: &Path, seen: &dyn Fn(&Path) -> bool) -> Vec<Tool> {
    let mut tools = Vec::new();
    for dir in path.map(std::env::split_paths).into_iter().flatten() {
        let Some(tool) = Some(&dir).filter(|dir| dir.is_absolute()).and_then(|dir| Tool::at(dir.clone()))
        else {
            continue;
        };
        if !tool.real.is_dir() {
            continue;
        }
        if !seen(&tool.real) {
            for link in links(&tool.real).into_iter().filter(|link| !seen(&link.real)) {
                tools.extend(behind(&link.real, home));
                tools.extend(detours(&link.written));
            }
        }
        if !tool.real.starts_with(home) {
            tools.extend(beside(&tool.real));
        }
        tools.push(tool);
    }
    tools
}

/// Returns the links of a directory that lead out of it, those to the same program once.
fn links(dir: &Path) -> Vec<Tool> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let links = entries
        .take(MOST_ENTRIES)
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let mut tools: Vec<Tool> = links.filter_map(|entry| Tool::at(entry.path())).collect();
    tools.retain(|tool| !tool.real.starts_with(dir));
    tools.sort_by(|one, other| one.real.cmp(&other.real));
    tools.dedup_by(|one, other| one.real == other.real);
    tools
}

/// Returns the directories that a link leads through by other names than their own: inside, the way must be the same.
fn detours(link: &Path) -> Vec<Tool> {
    let (mut tools, mut at) = (Vec::new(), link.to_owned());
    for _ in 0..HOPS {
        let Ok(target) = fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("/")).join(target);
        let climbs = at.components().any(|part| part == Component::ParentDir);
        let dir = at.parent().filter(|_| !climbs);
        tools.extend(dir.and_then(|dir| Tool::at(dir.to_owned())).filter(|tool| tool.real != tool.written));
    }
    tools
}

/// Returns what a linked program needs to run: its package, its prefix, or the directory that it lies in.
fn behind(real: &Path, home: &Path) -> Vec<Tool> {
    let package = real.ancestors().filter(|dir| dir.file_name() == Some(OsStr::new("node_modules"))).last();
    let plain = |path: &Path| Tool { written: path.to_owned(), real: path.to_owned() };
    if let Some(package) = package {
        return vec![plain(package)];
    }
    match real.parent() {
        Some(dir) if real.is_file() && !home.starts_with(dir) => {
            let mut tools = vec![plain(dir)];
            tools.extend(beside(dir));
            tools
        }
        _ => vec![plain(real)],
    }
}

fn beside(bin: &Path) -> Vec<Tool> {
    let prefix = bin.parent().filter(|_| bin.file_name() == Some(OsStr::new("bin")));
    let prefix = prefix.filter(|prefix| prefix.parent().is_some());
    prefix
        .into_iter()
        .flat_map(|prefix| BESIDE_BIN.iter().map(move |name| prefix.join(name)))
        .filter_map(|path| Tool::at(path).filter(|tool| tool.real == tool.written))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_through_a_directory_of_another_name_is_shown_with_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["bin", "store/1.2/tool"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("store/1.2/tool/run"), "").unwrap();
        symlink("1.2", root.join("store/current")).unwrap();
        symlink(root.join("store/current/tool/run"), root.join("bin/run")).unwrap();
        let tools = on_path(Some(root.join("bin").as_os_str()), Path::new("/home/nobody"), &|_| false);
        let detour = Tool { written: root.join("store/current/tool"), real: root.join("store/1.2/tool") };
        assert!(tools.contains(&detour), "{tools:?}");
        let real = Tool { written: detour.real.clone(), real: detour.real };
        assert!(tools.contains(&real), "{tools:?}");
    }
}
