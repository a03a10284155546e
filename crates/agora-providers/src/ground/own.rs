//! A repository of our own, beside the user's: trees are built there, and whatever came from an agent is checked there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use agora_core::git::patch::Change;

use super::walk::at;
use crate::git::host::line;
use crate::git::layout::Layout;
use crate::git::{Git, GitError};

/// Why something could not be done.
pub(super) type Why = String;

/// A patch, and what of it counts.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) patch: &'a [u8],
    pub(super) changes: &'a [Change],
    /// What is in it without its secret, and so is not what the agent wrote.
    pub(super) left: Vec<&'a Change>,
}

impl<'a> Work<'a> {
    pub(super) fn new(patch: &'a [u8], changes: &'a [Change], redacted: &[String]) -> Self {
        let is_redacted =
            |change: &&Change| redacted.iter().any(|name| *name == String::from_utf8_lossy(&change.path));
        Self { patch, changes, left: changes.iter().filter(is_redacted).collect() }
    }

    /// Returns every path that something happens to.
    pub(super) fn touched(&self) -> BTreeSet<&'a [u8]> {
        let counts = self.changes.iter().filter(|change| !self.left.contains(change));
        counts.flat_map(|change| [Some(&*change.path), change.from.as_deref()]).flatten().collect()
    }
}

/// Where files are as they were when the ground was taken.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) files: PathBuf,
    pub(super) base: Option<PathBuf>,
}

impl Origin {
    /// Finds a file as it was. A link counts as what it says.
    pub(super) fn read(&self, path: &[u8]) -> Option<(&'static str, Vec<u8>)> {
        use std::os::unix::ffi::OsStringExt;
        use std::os::unix::fs::PermissionsExt;
        let all = [Some(&self.files), self.base.as_ref()];
        let (path, meta) = all.into_iter().flatten().find_map(|root| {
            let path = at(root, path);
            Some((path.clone(), fs::symlink_metadata(path).ok()?))
        })?;
        if meta.is_symlink() {
            return Some(("120000", fs::read_link(path).ok()?.into_os_string().into_vec()));
        }
        let mode = if meta.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
        meta.is_file().then(|| fs::read(path).ok()).flatten().map(|bytes| (mode, bytes))
    }
}

/// What a patch makes of what.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) before: String,
    pub(super) after: String,
}

/// The repository of our own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own<'a> {
    pub(super) git: &'a Git,
    pub(super) dir: &'a Path,
}

impl Own<'_> {
    /// Makes it: the user's objects can be read there, and nothing else is theirs.
    pub(super) fn prepare(&self, top: &Path, layout: Option<&Layout>) -> Result<(), Why> {
        fs::create_dir_all(self.dir).map_err(|error| error.to_string())?;
        let format = match layout {
            Some(_) => line(&self.git.call(top, "rev-parse").run(["--show-object-format"]).map_err(said)?),
            None => "sha1".to_owned(),
        };
        let init = self.git.call(self.dir, "init").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let format = format!("--object-format={format}");
        init.run(["--quiet", "--bare", "--template=", &format, "."]).map_err(said)?;
        let Some(layout) = layout else { return Ok(()) };
        let lines: Vec<String> =
            layout.objects().iter().map(|path| format!("{}\n", path.display())).collect();
        let alternates = self.dir.join("objects/info");
        fs::create_dir_all(&alternates)
            .and_then(|()| fs::write(alternates.join("alternates"), lines.concat()))
            .map_err(|error| error.to_string())?;
        let shallow = layout.common.join("shallow");
        if shallow.is_file() {
            fs::copy(shallow, self.dir.join("shallow")).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Builds the trees before and after a patch. Before it: a commit's, with every file that the patch is about as it was in the
    /// workspace, because what was not committed then is part of what the patch stands on.
    pub(super) fn sides(&self, work: &Work<'_>, head: Option<&str>, origin: &Origin) -> Result<Sides, Why> {
        let mut info = Vec::new();
        let mut files: Vec<_> = work.touched().into_iter().map(|path| (path, origin.read(path))).collect();
        // What goes first makes room for what comes.
        files.sort_by_key(|(_, file)| file.is_some());
        for (path, file) in files {
            self.entry(&mut info, path, file)?;
        }
        let index = self.index(head, "sides.index", info)?;
        let on = |command: &str| self.git.call(self.dir, command).env("GIT_INDEX_FILE", &index);
        let tree = || on("write-tree").run([""; 0]).map(|out| line(&out)).map_err(said);
        let before = tree()?;
        let excludes = work.left.iter().map(|change| format!("--exclude={}", escaped(&change.path)));
        let arguments = ["--cached", "--whitespace=nowarn"].map(str::to_owned).into_iter().chain(excludes);
        on("apply").input(work.patch).run(arguments).map_err(said)?;
        Ok(Sides { before, after: tree()? })
    }

    /// Returns the id of nothing, which is as long as every other one here.
    fn no_id(&self) -> String {
        let config = fs::read_to_string(self.dir.join("config")).unwrap_or_default();
        "0".repeat(if config.contains("sha256") { 64 } else { 40 })
    }

    /// Writes what stands at a path as git takes it in: nothing takes it away.
    pub(super) fn entry(
        &self,
        info: &mut Vec<u8>,
        path: &[u8],
        file: Option<(&str, Vec<u8>)>,
    ) -> Result<(), Why> {
        match file {
            Some((mode, bytes)) => {
                let id = self
                    .git
                    .call(self.dir, "hash-object")
                    .input(bytes)
                    .run(["-w", "--stdin"])
                    .map_err(said)?;
                info.extend(format!("{mode} {}\t", line(&id)).bytes());
            }
            None => info.extend(format!("0 {}\t", self.no_id()).bytes()),
        }
        info.extend(path);
        info.push(0);
        Ok(())
    }

    /// Makes an index of a commit, or of nothing, with some entries of our own.
    fn index(&self, commit: Option<&str>, name: &str, info: Vec<u8>) -> Result<PathBuf, Why> {
        let index = self.dir.join(name);
        let on = |command: &str| self.git.call(self.dir, command).env("GIT_INDEX_FILE", &index);
        on("read-tree").run([commit.unwrap_or("--empty")]).map_err(said)?;
        on("update-index").input(info).run(["-z", "--index-info"]).map_err(said)?;
        Ok(index)
    }

    /// Reads what stands at some paths of a tree, as git takes it in.
    pub(super) fn entries(&self, tree: &str, touched: &BTreeSet<&[u8]>) -> Result<Vec<u8>, Why> {
        let listed = self.git.call(self.dir, "ls-tree").run(["-r", "-z", tree]).map_err(said)?;
        let (mut info, mut there) = (Vec::new(), BTreeSet::new());
        for entry in listed.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()) {
            let Some(tab) = entry.iter().position(|&byte| byte == b'\t') else { continue };
            if touched.contains(&entry[tab + 1..]) {
                there.insert(&entry[tab + 1..]);
                info.extend(entry);
                info.push(0);
            }
        }
        let mut gone = Vec::new();
        for path in touched.difference(&there) {
            self.entry(&mut gone, path, None)?;
        }
        Ok([gone, info].concat())
    }

    /// Builds the tree of a commit with some entries of our own.
    pub(super) fn tree_with(&self, commit: Option<&str>, info: &[u8]) -> Result<String, Why> {
        let index = self.index(commit, "last.index", info.to_vec())?;
        let call = self.git.call(self.dir, "write-tree").env("GIT_INDEX_FILE", &index);
        call.run([""; 0]).map(|out| line(&out)).map_err(said)
    }

    pub(super) fn read(&self, arguments: &[&str]) -> Result<String, Why> {
        let (command, rest) = arguments.split_first().ok_or("no command")?;
        self.git.call(self.dir, command).run(rest).map(|out| line(&out)).map_err(said)
    }
}

/// Writes a path so that a pattern means it alone.
fn escaped(path: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(path).chars() {
        if matches!(character, '*' | '?' | '[' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

pub(super) fn said(error: GitError) -> Why {
    error.to_string()
}
