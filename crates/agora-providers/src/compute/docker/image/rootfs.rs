//! The files of an image: the worker, the programs that were asked for with what they are loaded with, and the few files that every
//! program expects. The same inputs give the same bytes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use agora_core::wall::AGENT_ID;
use tar::{Builder, EntryType, Header};

use super::elf::{self, Program};
use crate::compute::docker::container::PROGRAM;

/// Where most systems keep the certificates that they trust.
const CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Directories that a container is mounted over, or that programs expect.
const DIRECTORIES: [&str; 20] = [
    "agora",
    "agora/aids",
    "agora/home",
    "agora/in",
    "agora/out",
    "agora/tmp",
    "agora/work",
    "dev",
    "etc",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr",
    "usr/bin",
    "usr/local/bin",
    "usr/sbin",
    "var",
    "var/tmp",
];
/// What most systems have as links, so that a path is the same file either way.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// One file of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory {
        mode: u32,
    },
    /// A file of this machine.
    Copy {
        from: PathBuf,
        mode: u32,
    },
    Bytes(Vec<u8>),
    Link {
        to: String,
    },
}

/// The files of an image, by their paths without a slash in front.
#[derive(Clone, Debug)]
pub(super) struct RootFs(BTreeMap<String, Entry>);

impl RootFs {
    /// Starts with what every image has. The user is who runs agora here.
    pub(super) fn new(user: u32) -> Self {
        let mut files = Self(BTreeMap::new());
        for dir in DIRECTORIES {
            // A mount in memory gets the mode of what it is over.
            let open = dir.ends_with("tmp") || ["agora/aids", "agora/home"].contains(&dir);
            let mode = if open { 0o1777 } else { 0o755 };
            files.make_dirs(Path::new(dir));
            files.0.insert(dir.to_owned(), Entry::Directory { mode });
        }
        for dir in MERGED {
            files.0.insert(dir.to_owned(), Entry::Link { to: format!("usr/{dir}") });
            files.make_dirs(&Path::new("usr").join(dir));
        }
        let own = if user == 0 || user == AGENT_ID {
            String::new()
        } else {
            format!("user:x:{user}:{user}::/agora/home:/bin/sh\n")
        };
        let passwd =
            format!("root:x:0:0::/root:/bin/sh\nagent:x:{AGENT_ID}:{AGENT_ID}::/agora/home:/bin/sh\n{own}");
        let group = passwd.lines().filter_map(|line| {
            let mut parts = line.split(':');
            Some(format!("{}:x:{}:\n", parts.next()?, parts.nth(1)?))
        });
        let group: String = group.collect();
        files.text("etc/group", &group);
        files.text("etc/passwd", &passwd);
        files.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
        if let Some(found) = CERTIFICATES.iter().find(|path| Path::new(path).is_file()) {
            files.copy(Path::new(found), "etc/ssl/certs/ca-certificates.crt", 0o644);
        }
        files
    }

    /// Adds the worker.
    pub(super) fn worker(&mut self, program: &Path) -> io::Result<()> {
        self.program(program, PROGRAM.trim_start_matches('/'))
    }

    /// Adds a program under a name, with what it is loaded with.
    pub(super) fn tool(&mut self, name: &str, program: &Path) -> io::Result<()> {
        self.program(program, &format!("usr/bin/{name}"))
    }

    fn program(&mut self, program: &Path, to: &str) -> io::Result<()> {
        match elf::look(program)? {
            Program::Static => {}
            Program::Dynamic(loader) => {
                let libraries = elf::libraries(&loader, program)?;
                let home = libraries.iter().find(|path| is_named(path, "libc.so"));
                let home = home.and_then(|path| path.parent()).map(Path::to_owned);
                for library in &libraries {
                    self.library(library, home.as_deref());
                }
            }
            Program::Script(line) => {
                let why = format!("it is a script for `{line}`, and not a program that can be taken alone");
                return Err(io::Error::other(why));
            }
            Program::Other => return Err(io::Error::other("it is not a program of this machine's kind")),
        }
        self.copy(program, to, 0o755);
        Ok(())
    }

    /// Adds a library where it is here, and where every loader looks: an image has no index of libraries.
    fn library(&mut self, path: &Path, home: Option<&Path>) {
        let place = merged(path);
        self.copy(path, &place, 0o755);
        let Some((home, name)) = home.zip(path.file_name()) else { return };
        let usual = merged(&home.join(name));
        if usual != place {
            self.make_dirs(Path::new(&usual).parent().unwrap_or(Path::new("")));
            self.0.insert(usual, Entry::Link { to: format!("/{place}") });
        }
    }

    fn text(&mut self, to: &str, text: &str) {
        self.make_dirs(Path::new(to).parent().unwrap_or(Path::new("")));
        self.0.insert(to.to_owned(), Entry::Bytes(text.as_bytes().to_vec()));
    }

    fn copy(&mut self, from: &Path, to: &str, mode: u32) {
        self.make_dirs(Path::new(to).parent().unwrap_or(Path::new("")));
        self.0.insert(to.to_owned(), Entry::Copy { from: from.to_owned(), mode });
    }

    fn make_dirs(&mut self, dir: &Path) {
        let mut path = PathBuf::new();
        for part in dir.components() {
            path.push(part);
            let name = path.to_string_lossy().into_owned();
            self.0.entry(name).or_insert(Entry::Directory { mode: 0o755 });
        }
    }

    /// Writes everything as a tar archive, in the order of the paths, with no time and no owner of this machine.
    pub(super) fn write(&self, to: impl Write) -> io::Result<()> {
        let mut archive = Builder::new(to);
        for (path, entry) in &self.0 {
            let mut header = Header::new_gnu();
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            match entry {
                Entry::Directory { mode } => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_size(0);
                    archive.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                Entry::Bytes(bytes) => {
                    header.set_mode(0o644);
                    header.set_size(bytes.len() as u64);
                    archive.append_data(&mut header, path, bytes.as_slice())?;
                }
                Entry::Copy { from, mode } => {
                    let file = File::open(from).map_err(|error| about(from, &error))?;
                    let size = file.metadata()?.len();
                    header.set_mode(*mode);
                    header.set_size(size);
                    let file = io::Read::take(file, size);
                    archive.append_data(&mut header, path, file).map_err(|error| about(from, &error))?;
                }
                Entry::Link { to } => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_size(0);
                    archive.append_link(&mut header, path, to)?;
                }
            }
        }
        archive.finish()
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

fn is_named(path: &Path, start: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
}

/// Names a path in the image: without a slash in front, and below `usr` where most systems have a link to there.
fn merged(path: &Path) -> String {
    let mut parts = path.components().filter(|part| matches!(part, Component::Normal(_))).peekable();
    let first = parts.peek().and_then(|part| part.as_os_str().to_str()).unwrap_or_default();
    let below: PathBuf = if MERGED.contains(&first) { "usr".into() } else { PathBuf::new() };
    parts.fold(below, |path, part| path.join(part)).to_string_lossy().into_owned()
}

/// Finds a program on a path, and follows links to the file itself.
pub(super) fn find(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    let found = std::env::split_paths(path).map(|dir| dir.join(name)).find(|path| path.is_file())?;
    fs::canonicalize(found).ok()
}
