//! A repository of our own, beside the user's: trees are built there, and whatever came from an agent is checked there.
//!
//! Nobody's configuration counts in it, so that nothing which attributes name can run: no filter, no merge driver.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use agora_core::git::patch::PathBytes;
use agora_core::ground::Author;

use super::blob::{Blob, Standing};
use super::work::{Origin, Work};
use crate::git::host::{Call, line};
use crate::git::layout::Layout;
use crate::git::store::{Closed, Store};
use crate::git::{Git, GitError};
use crate::straight;

/// More than any list of commits that a history ends at.
const SHALLOW_BYTES: u64 = 64 << 20;

/// Why something could not be done.
pub(super) type Why = String;

/// What a tree or an index has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBytes,
    /// Its mode and its id. `None`: nothing.
    pub(super) object: Option<(String, String)>,
}

/// What a patch makes of what: trees of the paths that it is about, and of nothing else.
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

impl<'a> Own<'a> {
    /// Makes it: the user's objects can be read there, and nothing else is theirs.
    pub(super) fn prepare(&self, top: &Path, layout: Option<&Layout>, closed: Closed<'_>) -> Result<(), Why> {
        fs::create_dir_all(self.dir).map_err(|error| error.to_string())?;
        let format = match layout {
            Some(_) => line(&self.git.call(top, "rev-parse").run(["--show-object-format"]).map_err(said)?),
            None => "sha1".to_owned(),
        };
        let format = format!("--object-format={format}");
        self.call("init").run(["--quiet", "--bare", "--template=", &format, "."]).map_err(said)?;
        let Some(layout) = layout else { return Ok(()) };
        let stores = Store::all(layout, closed).map_err(|error| error.to_string())?;
        let lines: Vec<String> = stores.iter().map(|store| format!("{}\n", store.path().display())).collect();
        let alternates = self.dir.join("objects/info");
        fs::create_dir_all(&alternates)
            .and_then(|()| fs::write(alternates.join("alternates"), lines.concat()))
            .map_err(|error| error.to_string())?;
        let shallow = straight::read(&layout.common.join("shallow"), SHALLOW_BYTES);
        let shallow = shallow.map_err(|error| error.to_string())?;
        shallow
            .map_or(Ok(()), |shallow| fs::write(self.dir.join("shallow"), shallow))
            .map_err(|error| error.to_string())
    }

    /// Prepares a call that only this repository's own configuration counts for. Nothing here outlives a crash, so that no disk is waited
    /// for.
    pub(super) fn call(&self, command: &str) -> Call {
        let call = self.git.call(self.dir, command).env("GIT_DIR", self.dir).set("core.fsync=none");
        call.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
    }

    /// Names the file of an object that is not packed.
    pub(super) fn loose(&self, id: &str) -> PathBuf {
        let (dir, name) = id.split_at(2);
        self.dir.join("objects").join(dir).join(name)
    }

    pub(super) fn read(&self, arguments: &[&str]) -> Result<String, Why> {
        let (command, rest) = arguments.split_first().ok_or("no command")?;
        self.call(command).run(rest).map(|out| line(&out)).map_err(said)
    }

    /// Builds the trees before and after a patch.
    pub(super) fn sides(&self, work: &Work, origin: &Origin) -> Result<Sides, Why> {
        let before = self.before(&work.touched(), origin)?;
        Ok(Sides { after: self.after(&before, work)?, before })
    }

    /// Builds the tree before a patch: every file that it is about as it was in the workspace, because what was not committed then is
    /// part of what the patch stands on.
    pub(super) fn before(&self, paths: &BTreeSet<PathBytes>, origin: &Origin) -> Result<String, Why> {
        self.tree(None, &self.store(origin.read(paths)?)?)
    }

    /// Builds the tree that a patch makes of another one.
    pub(super) fn after(&self, before: &str, work: &Work) -> Result<String, Why> {
        let patch = work.patch();
        if patch.is_empty() {
            return Ok(before.to_owned());
        }
        let index = self.index(Some(before), "after.index", &[])?;
        let on = |command: &str| self.call(command).env("GIT_INDEX_FILE", &index);
        on("apply").input(patch).run(["--cached", "--whitespace=nowarn"]).map_err(said)?;
        on("write-tree").run([""; 0]).map(|out| line(&out)).map_err(said)
    }

    /// Stores bytes as they are. In one call, whatever they are called: a name may have any byte in it.
    pub(super) fn store(&self, files: Vec<Standing>) -> Result<Vec<Entry>, Why> {
        let dir = self.dir.join("stored");
        let failed = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&dir).map_err(failed)?;
        let mut names = String::new();
        for (number, blob) in files.iter().filter_map(|(_, blob)| blob.as_ref()).enumerate() {
            fs::write(dir.join(number.to_string()), &blob.bytes).map_err(failed)?;
            names.extend(["stored/", &number.to_string(), "\n"]);
        }
        let ids = self.call("hash-object").input(names).run(["-w", "--no-filters", "--stdin-paths"]);
        let ids = String::from_utf8_lossy(&ids.map_err(said)?).into_owned();
        fs::remove_dir_all(&dir).map_err(failed)?;
        let mut ids = ids.lines();
        let entries = files.into_iter().map(|(path, blob)| {
            let object = match blob {
                Some(blob) => {
                    Some((blob.mode, ids.next().ok_or("git stored less than it was given")?.into()))
                }
                None => None,
            };
            Ok(Entry { path, object })
        });
        entries.collect()
    }

    /// Makes an index of a commit or tree, or of nothing, with some entries of our own.
    pub(super) fn index(&self, tree: Option<&str>, name: &str, entries: &[Entry]) -> Result<PathBuf, Why> {
        let index = self.dir.join(name);
        let on = |command: &str| self.call(command).env("GIT_INDEX_FILE", &index);
        on("read-tree").run([tree.unwrap_or("--empty")]).map_err(said)?;
        on("update-index").input(self.info(entries)).run(["-z", "--index-info"]).map_err(said)?;
        Ok(index)
    }

    /// Writes entries as git takes them in. What goes first makes room for what comes.
    pub(super) fn info(&self, entries: &[Entry]) -> Vec<u8> {
        let config = fs::read_to_string(self.dir.join("config")).unwrap_or_default();
        // The id of nothing is as long as every other one here.
        let nothing = "0".repeat(if config.contains("sha256") { 64 } else { 40 });
        let (gone, there): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.object.is_none());
        let mut info = Vec::new();
        for entry in gone.into_iter().chain(there) {
            let (mode, id) = entry.object.as_ref().map_or(("0", &*nothing), |(mode, id)| (mode, id));
            info.extend(format!("{mode} {id}\t").bytes());
            info.extend(&entry.path);
            info.push(0);
        }
        info
    }

    /// Builds the tree of a commit, or of nothing, with some entries of our own.
    pub(super) fn tree(&self, commit: Option<&str>, entries: &[Entry]) -> Result<String, Why> {
        let index = self.index(commit, "last.index", entries)?;
        let call = self.call("write-tree").env("GIT_INDEX_FILE", &index);
        call.run([""; 0]).map(|out| line(&out)).map_err(said)
    }

    /// Reads what stands in a tree.
    pub(super) fn all(&self, tree: &str) -> Result<Vec<Entry>, Why> {
        let listed = self.call("ls-tree").run(["-r", "-z", "--full-tree", tree]).map_err(said)?;
        Ok(listed_entries(&listed))
    }

    /// Reads what stands at some paths of a tree.
    pub(super) fn entries(&self, tree: &str, paths: &BTreeSet<PathBytes>) -> Result<Vec<Entry>, Why> {
        Ok(only(self.all(tree)?, paths))
    }

    /// Reads the bytes of files and links.
    pub(super) fn blobs(&self, entries: &[Entry]) -> Result<Vec<Standing>, Why> {
        let ids = entries.iter().filter_map(|entry| entry.object.as_ref());
        let asked: String = ids.map(|(_, id)| format!("{id}\n")).collect();
        let out = self.call("cat-file").input(asked).run(["--batch"]).map_err(said)?;
        let mut rest = &out[..];
        let mut next = || {
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let size: usize = str::from_utf8(&rest[..end]).ok()?.rsplit(' ').next()?.parse().ok()?;
            let bytes = rest.get(end + 1..end + 1 + size)?.to_vec();
            rest = rest.get(end + size + 2..)?;
            Some(bytes)
        };
        let read = entries.iter().map(|entry| {
            let blob = match &entry.object {
                Some((mode, id)) => {
                    let bytes = next().ok_or_else(|| format!("the object `{id}` is not there"))?;
                    Some(Blob { mode: mode.clone(), bytes })
                }
                None => None,
            };
            Ok((entry.path.clone(), blob))
        });
        read.collect()
    }

    /// Returns what differs between two trees, as the second has it. Nothing is the empty tree.
    pub(super) fn differing(&self, from: Option<&str>, to: &str) -> Result<Vec<Entry>, Why> {
        let Some(from) = from else { return self.all(to) };
        let out = self.call("diff-tree").run(["-r", "-z", "--no-renames", from, to]).map_err(said)?;
        let mut parts = out.split(|&byte| byte == 0).filter(|part| !part.is_empty());
        let mut entries = Vec::new();
        // `:<old mode> <mode> <old id> <id> <status>`, and the path.
        while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
            let about = line(about);
            let words: Vec<&str> = about.split(' ').collect();
            let [_, mode, _, id, status] = words[..] else { return Err(format!("git said `{about}`")) };
            let object = (status != "D").then(|| (mode.to_owned(), id.to_owned()));
            entries.push(Entry { path: path.to_vec(), object });
        }
        Ok(entries)
    }

    /// Makes a commit.
    pub(super) fn commit(&self, commit: &Commit<'_>) -> Result<String, Why> {
        let Commit { tree, parents, message, author, committer, date } = commit;
        let call = self.call("commit-tree").input(message.as_bytes());
        let call = call.env("GIT_AUTHOR_NAME", &author.name).env("GIT_AUTHOR_EMAIL", &author.email);
        let call = call.env("GIT_COMMITTER_NAME", &committer.name);
        let call = call.env("GIT_COMMITTER_EMAIL", &committer.email);
        let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];
        let call =
            date.iter().fold(call, |call, date| dates.iter().fold(call, |call, name| call.env(name, date)));
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        call.run([*tree].into_iter().chain(parents)).map(|out| line(&out)).map_err(said)
    }

    /// Lets the user's repository fetch: every object is checked on the way in, and nothing runs.
    pub(super) fn hand_over(&self, top: &Path, refs: &str) -> Result<(), Why> {
        let arguments =
            ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--no-recurse-submodules"];
        let from = self.dir.to_string_lossy();
        self.git
            .call(top, "fetch")
            .set("fetch.fsckObjects=true")
            .set("transfer.fsckObjects=true")
            // Whatever the repository would have in the place of this path, and allows.
            .env("GIT_ALLOW_PROTOCOL", "file")
            .set("fetch.writeCommitGraph=false")
            .run(arguments.into_iter().chain(["--", &*from, refs]))
            .map(drop)
            .map_err(said)
    }
}

/// A commit that is to be made.
#[derive(Debug)]
pub(super) struct Commit<'a> {
    pub(super) tree: &'a str,
    pub(super) parents: &'a [&'a str],
    pub(super) message: &'a str,
    pub(super) author: Author,
    pub(super) committer: Author,
    /// As git reads it. `None`: now.
    pub(super) date: Option<String>,
}

/// Reads entries as `ls-tree` and `ls-files` list them: about it, a tab, its path.
pub(super) fn listed_entries(listed: &[u8]) -> Vec<Entry> {
    let parsed = listed.split(|&byte| byte == 0).filter_map(|entry| {
        let tab = entry.iter().position(|&byte| byte == b'\t')?;
        let about = str::from_utf8(&entry[..tab]).ok()?;
        // One says `<mode> <kind> <id>`, the other `<mode> <id> <stage>`.
        let mode = about.split(' ').next()?;
        let id = about.split(' ').skip(1).find(|word| super::repository::is_id(word))?;
        Some(Entry { path: entry[tab + 1..].to_vec(), object: Some((mode.to_owned(), id.to_owned())) })
    });
    parsed.collect()
}

/// Returns what stands at some paths, of all that there is, in the order of the paths.
pub(super) fn only(all: Vec<Entry>, paths: &BTreeSet<PathBytes>) -> Vec<Entry> {
    let mut there: Vec<Entry> = all.into_iter().filter(|entry| paths.contains(&entry.path)).collect();
    let known: BTreeSet<&PathBytes> = there.iter().map(|entry| &entry.path).collect();
    let gone: Vec<PathBytes> = paths.iter().filter(|path| !known.contains(path)).cloned().collect();
    there.extend(gone.into_iter().map(|path| Entry { path, object: None }));
    there.sort_by(|one, other| one.path.cmp(&other.path));
    there
}

pub(super) fn said(error: GitError) -> Why {
    error.to_string()
}
