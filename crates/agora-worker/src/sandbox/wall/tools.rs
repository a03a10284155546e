//! The programs of a machine beside the system's own: what the path names, what that links to, and the roots of known tools.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where the tools of a home are, from the home on. Of some only parts, because the rest is a login or is written to.
const ROOTS: [&str; 35] = [
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
    ".local/share/pipx",
    ".local/pipx",
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
const BESIDE_BIN: [&str; 5] = ["lib", "lib64", "libexec", "share", "pyvenv.cfg"];
/// A prefix of the home that holds much more than programs: everybody's data is in its `share`.
const SHARED_PREFIX: &str = ".local";
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
        let real = real(&written)?;
        Some(Self { written, real })
    }
}

/// Returns where a path truly is. Of most that are asked for nothing is there, which one look tells; the way to what is there takes one
/// for each part of it.
pub(super) fn real(path: &Path) -> Option<PathBuf> {
    fs::symlink_metadata(path).ok()?;
    fs::canonicalize(path).ok()
}

/// Returns the roots of known tools that are there.
pub(super) fn known(home: &Path) -> Vec<Tool> {
    ROOTS.iter().filter_map(|root| Tool::at(home.join(root))).collect()
}

/// Returns the directories that the path names, and what is in them by links only: of the system's, which `seen` has already,
/// everything that they link to is the system's, too.
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
        if tool.real.starts_with(home) || !seen(&tool.real) {
            for link in links(&tool.real).into_iter().filter(|link| link.real.is_file() && !seen(&link.real))
            {
                let ways = hops(&link.written).into_iter().chain([link.real]);
                tools.extend(ways.flat_map(|way| needed(&way, home)));
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

/// Returns the paths that a link leads to, one after the other, as they are written: inside, the way must be the same.
fn hops(link: &Path) -> Vec<PathBuf> {
    let (mut hops, mut at) = (Vec::new(), link.to_owned());
    for _ in 0..HOPS {
        let Ok(target) = fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("/")).join(target);
        let climbs = at.components().any(|part| part == Component::ParentDir);
        hops.extend(Some(at.clone()).filter(|_| !climbs));
    }
    hops
}

/// Returns what a linked program needs to run: its packages, or its prefix. Of any other place it is the file alone: beside it lies
/// whatever somebody keeps there.
fn needed(program: &Path, home: &Path) -> Vec<Tool> {
    let packages =
        program.ancestors().filter(|dir| dir.file_name() == Some(OsStr::new("node_modules"))).last();
    if let Some(packages) = packages {
        return Tool::at(packages.to_owned()).into_iter().collect();
    }
    let bin = program.parent().filter(|dir| is_of_a_prefix(dir, home));
    let whole = bin.map(|bin| Tool::at(bin.to_owned()).into_iter().chain(beside(bin)).collect());
    whole.unwrap_or_else(|| Tool::at(program.to_owned()).into_iter().collect())
}

fn is_of_a_prefix(dir: &Path, home: &Path) -> bool {
    let prefix = dir.parent().filter(|_| dir.file_name() == Some(OsStr::new("bin")));
    let prefix = prefix.and_then(real);
    prefix.is_some_and(|prefix| !home.starts_with(&prefix) && prefix != home.join(SHARED_PREFIX))
}

/// Returns what a directory of programs has beside it, as far as that is really there.
fn beside(bin: &Path) -> Vec<Tool> {
    let prefix = bin.parent().filter(|_| bin.file_name() == Some(OsStr::new("bin")));
    let Some(prefix) =
        prefix.filter(|prefix| prefix.parent().is_some()).and_then(|prefix| Tool::at(prefix.to_owned()))
    else {
        return Vec::new();
    };
    let parts = BESIDE_BIN.iter().filter_map(|name| Tool::at(prefix.written.join(name)));
    parts.filter(|part| part.real.starts_with(&prefix.real)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tools_of(root: &Path, home: &Path) -> Vec<Tool> {
        on_path(Some(root.join("bin").as_os_str()), home, &|_| false)
    }

    fn file(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn plain(path: PathBuf) -> Tool {
        Tool { written: path.clone(), real: path }
    }

    #[test]
    fn a_link_through_a_directory_of_another_name_is_shown_with_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        file(&root.join("store/1.2/tool/run"));
        fs::create_dir(root.join("bin")).unwrap();
        symlink("1.2", root.join("store/current")).unwrap();
        symlink(root.join("store/current/tool/run"), root.join("bin/run")).unwrap();
        let tools = tools_of(&root, Path::new("/home/nobody"));
        let real = root.join("store/1.2/tool/run");
        let detour = Tool { written: root.join("store/current/tool/run"), real: real.clone() };
        assert_eq!(tools, [detour, plain(real), plain(root.join("bin"))]);
    }

    #[test]
    fn of_what_is_linked_to_only_a_real_prefix_is_more_than_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        for path in [
            "Documents/foo.sh",
            "Documents/taxes.txt",
            ".local/bin/x",
            ".local/share/mail/inbox",
            "venvs/black/bin/black",
            "venvs/black/lib/black.py",
            "venvs/black/pyvenv.cfg",
            "venvs/black/private.txt",
        ] {
            file(&home.join(path));
        }
        fs::create_dir(home.join("bin")).unwrap();
        for (link, target) in [
            ("foo", "Documents/foo.sh"),
            ("docs", "Documents"),
            ("x", ".local/bin/x"),
            ("black", "venvs/black/bin/black"),
        ] {
            symlink(home.join(target), home.join("bin").join(link)).unwrap();
        }
        let mut shown: Vec<PathBuf> = tools_of(&home, &home).into_iter().map(|tool| tool.real).collect();
        shown.sort();
        shown.dedup();
        let expected = [
            ".local/bin/x",
            "Documents/foo.sh",
            "bin",
            "venvs/black/bin",
            "venvs/black/lib",
            "venvs/black/pyvenv.cfg",
        ];
        assert_eq!(shown, expected.map(|path| home.join(path)));
    }
}
