//! Takes a commit instead of a working tree: of a repository here, or of one that is fetched.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agora_core::ContentHash;
use agora_core::ground::{Ground, Source};
use agora_core::provider::ground::GroundError;
use agora_core::wall::Never;
use rustix::fs::{FlockOperation, flock};

use super::copy::Owner;
use super::repository::Repository;
use super::take::{FILES, GONE, Taker, refused, unavailable};
use crate::git::config::without_user;
use crate::git::host::{Call, line};
use crate::git::layout::{Layout, top_of};
use crate::git::store::Store;
use crate::git::{Git, GitError};
use crate::home::{list_dir, make_private};

/// What is in a commit is what is there: no filter, no conversion, whatever its attributes say. This goes before all of them.
const AS_IT_IS: &str = "* -text -ident -filter !working-tree-encoding\n";

/// What a URL's cache is held with.
const LOCK: &str = "agora.lock";

/// A commit, and where it is.
struct Fetched {
    layout: Layout,
    stores: Vec<Store>,
    commit: String,
}

impl Taker<'_> {
    /// Takes a commit of the repository that a directory lies in.
    pub(super) fn take_commit(&self, dir: &Path, rev: &str) -> Result<Ground, GroundError> {
        let dir = fs::canonicalize(dir).map_err(|error| refused(dir, &error))?;
        let top = top_of(&dir).map_err(|error| refused(&dir, &error))?;
        let top = top.ok_or_else(|| GroundError::Refused {
            what: format!("`{}` lies in no git repository, so there is no `{rev}`", dir.display()),
            hint: Some("leave `--base` away to work on the directory as it is".to_owned()),
        })?;
        self.may_show(&top)?;
        let path = top.to_str().ok_or_else(|| refused(&top, &io::Error::other("its name is no text")))?;
        let source = Source::Repository { path: path.to_owned(), base: Some(rev.to_owned()) };
        let layout = Layout::of(&top).map_err(|error| refused(&top, &error))?;
        let layout = layout.ok_or_else(|| refused(&top, &io::Error::other("it is no repository")))?;
        let git = self.git_for("--base")?;
        let stores = self.stores(&top, &layout).map_err(|error| refused(&top, &error))?;
        let commit = resolve(git.call(&layout.own, "rev-parse"), rev)?;
        self.check_out(git, Fetched { layout, stores, commit }, source, Some(&top))
    }

    /// Fetches a repository into the cache, and takes a commit of it.
    pub(super) fn take_url(&self, url: &str, rev: Option<&str>) -> Result<Ground, GroundError> {
        let git = self.git_for("a repository's URL")?;
        let plain = without_user(url);
        if url.starts_with('-') || url.contains("::") {
            let what = format!("`{plain}` is no URL that agora fetches from");
            return Err(GroundError::Refused { what, hint: Some("https, ssh, file, or a path".to_owned()) });
        }
        let here = on_this_machine(url);
        if let Some(dir) = &here {
            self.may_show(dir)?;
            // Git would follow wherever it leads.
            if let Some(layout) = Layout::named(dir).map_err(|error| refused(dir, &error))? {
                self.may_show(&layout.own)?;
                self.may_show(&layout.common)?;
            }
        }
        let tree = here.and_then(working_tree);
        let broken = |error: GitError| GroundError::Git {
            what: format!("`{plain}` could not be fetched: {}", hidden(&error, url, &plain)),
            hint: Some("see whether `git ls-remote` of it works here".to_owned()),
        };
        let there = There::ask(git, self.home, url).map_err(broken)?;
        if rev.is_none() && there.head.is_none() {
            return Err(there.without_head(&plain));
        }
        let Some(id) = there.any() else { return Err(there.without_head(&plain)) };
        let (cache, lock) = self.cache(git, url, id)?;
        let in_cache = |name| git.call(&cache, name).env("GIT_DIR", &cache);
        let fetch = |more: &[&str]| {
            let always = ["--quiet", "--force", "--no-tags", "--no-write-fetch-head", "--update-shallow"];
            in_cache("fetch").run(always.iter().chain(more))
        };
        // What is gone there goes here: its name may be a directory of names by now.
        let mut all = vec!["--prune", "--", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        all.extend(there.head.is_some().then_some("+HEAD:refs/agora-cache/HEAD"));
        if cache.join("shallow").exists() {
            // As much as there is now: it may have been made whole.
            all.insert(0, "--unshallow");
        }
        fetch(&all).map_err(broken)?;
        if let Some(rev) = rev.filter(|rev| super::repository::is_id(rev)) {
            // A commit that no branch ends in may be had by its id, if the other side likes.
            let _ = fetch(&["--", url, rev]);
        }
        let commit = resolve(in_cache("rev-parse"), rev.unwrap_or("refs/agora-cache/HEAD"))?;
        let source = Source::Url { url: plain, rev: commit.clone() };
        // Others may read beside us; what is fetched next waits until the refs are copied.
        flock(&lock, FlockOperation::LockShared)
            .map_err(|error| GroundError::Unavailable(unavailable("hold", &cache, error.into())))?;
        let stores = vec![Store::fetched(&cache)];
        let layout = Layout::bare(fs::canonicalize(&cache).unwrap_or(cache));
        self.check_out(git, Fetched { layout, stores, commit }, source, tree.as_deref())
    }

    /// Returns the directory of a URL's cached repository, made when it is not there, and what it is held with: git gives up where two
    /// fetch into one. It has ids like this one.
    fn cache(&self, git: &Git, url: &str, id: &str) -> Result<(PathBuf, fs::File), GroundError> {
        let dir = cache_of(self.home, url, id);
        let broken = |error| GroundError::Unavailable(unavailable("make", &dir, error));
        make_private(&dir).map_err(broken)?;
        let lock = fs::File::create(dir.join(LOCK)).map_err(broken)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| broken(error.into()))?;
        unlock(&dir).map_err(broken)?;
        if !dir.join("HEAD").exists() {
            let format = if is_sha256(id) { "--object-format=sha256" } else { "--object-format=sha1" };
            // Refs are copied from it as files, whatever the user prefers.
            let call = git.call(&dir, "init").env("GIT_DEFAULT_REF_FORMAT", "files");
            call.run(["--quiet", "--bare", "--template=", format, "."]).map_err(said)?;
        }
        Ok((dir, lock))
    }

    fn git_for(&self, what: &str) -> Result<&Git, GroundError> {
        self.git.ok_or_else(|| GroundError::Git {
            what: format!("{what} wants git, and there is none on the PATH"),
            hint: Some("install git, or work on a directory as it is".to_owned()),
        })
    }

    /// Makes a ground of a commit: of the repository with this working tree, if it has one here.
    fn check_out(
        &self,
        git: &Git,
        fetched: Fetched,
        source: Source,
        tree: Option<&Path>,
    ) -> Result<Ground, GroundError> {
        let Fetched { layout, stores, commit } = fetched;
        let files = self.staged.join(FILES);
        let broken = |error| GroundError::Unavailable(unavailable("write", &files, error));
        self.start().map_err(broken)?;
        fs::write(self.staged.join(GONE), b"").map_err(broken)?;
        let author = self.author(&layout.own, &layout);
        let repository =
            Repository { layout: &layout, stores: &stores, author: author.as_ref(), owner: self.owner };
        let git_dir = files.join(".git");
        repository.make(&git_dir, Some(&commit))?;
        let (index, attributes) = (self.staged.join("index"), git_dir.join("info/attributes"));
        fs::write(&attributes, AS_IT_IS).map_err(broken)?;
        // In the repository that was just made nothing is configured that runs, and nothing of the user's is written.
        git.call(&files, "read-tree")
            .env("GIT_DIR", &git_dir)
            .env("GIT_WORK_TREE", &files)
            .env("GIT_INDEX_FILE", &index)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .run(["--reset", "-u", &commit])
            .map_err(|error| not_whole(git, &layout, &commit, error))?;
        fs::remove_file(&attributes).map_err(broken)?;
        let left_out = match (self.never, tree) {
            (Some(never), Some(tree)) => take_away(never, tree, &files).map_err(broken)?,
            (None, _) | (_, None) => Vec::new(),
        };
        fs::rename(&index, git_dir.join("index")).map_err(broken)?;
        let files_count = own(&files, self.owner).map_err(broken)?;
        Ok(Ground {
            source,
            base: None,
            state: ContentHash::of(commit.as_bytes()),
            head: Some(commit),
            files: files_count,
            author,
            left_out,
            left_out_more: 0,
        })
    }
}

/// What a repository says that it has, before anything of it is fetched.
struct There {
    head: Option<String>,
    /// Branches and tags, each with its id.
    refs: Vec<(String, String)>,
}

impl There {
    fn ask(git: &Git, home: &Path, url: &str) -> Result<Self, GitError> {
        // In no repository: one that the home lies in has nothing to say about it.
        let call = git.call(home, "ls-remote").env("GIT_DIR", "/dev/null");
        let listed = call.run(["--quiet", "--", url, "HEAD", "refs/heads/*", "refs/tags/*"])?;
        let listed = String::from_utf8_lossy(&listed);
        let lines = listed.lines().filter_map(|line| line.split_once('\t'));
        let mut refs: Vec<(String, String)> =
            lines.map(|(id, name)| (name.to_owned(), id.to_owned())).collect();
        let head = refs.iter().position(|(name, _)| name == "HEAD").map(|at| refs.remove(at).1);
        Ok(Self { head, refs })
    }

    /// Returns the id of something that is there. All have the same form.
    fn any(&self) -> Option<&str> {
        self.head.as_deref().or_else(|| Some(&*self.refs.first()?.1))
    }

    fn without_head(&self, plain: &str) -> GroundError {
        /// More are not named.
        const NAMED: usize = 5;
        if self.any().is_none() {
            let hint = Some("name one that has".to_owned());
            return GroundError::Refused { what: format!("the repository `{plain}` has no commit"), hint };
        }
        let branches = self.refs.iter().filter_map(|(name, _)| name.strip_prefix("refs/heads/"));
        let named: Vec<String> = branches.take(NAMED).map(|name| format!("`{name}`")).collect();
        GroundError::Refused {
            what: format!(
                "the repository `{plain}` has no default branch: its HEAD names one that is not there"
            ),
            hint: Some(match named.is_empty() {
                true => "name a tag or a commit of it with `--base`".to_owned(),
                false => format!("name another with `--base`: there is {}", named.join(", ")),
            }),
        }
    }
}

fn is_sha256(id: &str) -> bool {
    id.len() == 64
}

/// Finds the directory that a URL names on this machine, as git does: with the bytes that a URL spells out.
fn on_this_machine(url: &str) -> Option<PathBuf> {
    let Some(path) = url.strip_prefix("file://") else { return fs::canonicalize(url).ok() };
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let spelled =
            after.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let spelled = spelled.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(spelled.unwrap_or(*first));
        rest = if spelled.is_some() { &after[2..] } else { after };
    }
    fs::canonicalize(OsStr::from_bytes(&bytes)).ok()
}

/// Finds the working tree of a repository. Either may be named: the tree, or the repository in it.
fn working_tree(dir: PathBuf) -> Option<PathBuf> {
    let tree = if dir.ends_with(".git") { dir.parent()?.to_owned() } else { dir };
    Layout::of(&tree).ok()?.map(|_| tree)
}

/// Takes away what of a home is never visible: committed or not, it is not for an agent. Returns what was there.
fn take_away(never: &Never, tree: &Path, files: &Path) -> io::Result<Vec<String>> {
    let files = fs::canonicalize(files)?;
    let mut taken = Vec::new();
    for path in never.in_copy(tree, &files, |path| fs::canonicalize(path).ok()) {
        // What lies behind a link is named by where it truly is, too.
        let Some((above, name)) = path.parent().zip(path.file_name()) else { continue };
        if fs::canonicalize(above).ok().as_deref() != Some(above) {
            continue;
        }
        let name = name.as_encoded_bytes();
        for entry in fs::read_dir(above)? {
            let entry = entry?;
            let is_meant = match name.strip_suffix(b"*") {
                Some(start) => entry.file_name().as_encoded_bytes().starts_with(start),
                None => entry.file_name().as_encoded_bytes() == name,
            };
            if is_meant {
                crate::shelf::remove(&entry.path())?;
                let below = entry.path();
                taken.push(below.strip_prefix(&files).unwrap_or(&below).to_string_lossy().into_owned());
            }
        }
    }
    taken.sort();
    Ok(taken)
}

/// Names the directory of a URL's cached repository, which has ids like this one. One that comes to have others begins anew.
fn cache_of(home: &Path, url: &str, id: &str) -> PathBuf {
    let format = if is_sha256(id) { "sha256 " } else { "" };
    let hash = ContentHash::of(format!("{format}{}", without_user(url)).as_bytes()).to_string();
    let name: String = hash.rsplit(':').next().unwrap_or_default().chars().take(20).collect();
    home.join("repositories").join(name)
}

/// Lets the repository of a ground borrow from where the fetched one is now: the home may have been moved since it was made. Nobody
/// works there meanwhile: a ground is one thread's, and its next worker has not started.
pub(super) fn borrow_again(home: &Path, url: &str, rev: &str, files: &Path) -> io::Result<Store> {
    let info = files.join(".git/objects/info");
    let cache = fs::canonicalize(cache_of(home, url, rev))?;
    let store = Store::fetched(&cache);
    let line = [store.path().as_os_str().as_encoded_bytes(), b"\n"].concat();
    if fs::read(info.join("alternates"))? == line {
        return Ok(store);
    }
    let new = info.join("alternates.new");
    fs::write(&new, line)?;
    Owner::of_this_process().set(&new)?;
    fs::rename(new, info.join("alternates"))?;
    Ok(store)
}

/// Takes away what a git locked that died. A ref's name never ends like that.
fn unlock(cache: &Path) -> io::Result<()> {
    let mut waiting = vec![cache.to_owned()];
    while let Some(dir) = waiting.pop() {
        for path in list_dir(&dir)?.iter().map(|name| dir.join(name)) {
            let is_lock = path.extension() == Some(OsStr::new("lock"));
            if path.is_dir() {
                let is_of_refs = dir != cache || path.ends_with("refs");
                waiting.extend(is_of_refs.then_some(path));
            } else if is_lock && !path.ends_with(LOCK) {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// Gives everything its owner, and counts the files.
fn own(dir: &Path, owner: Owner) -> io::Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        owner.set(&entry.path())?;
        count += if entry.file_type()?.is_dir() { own(&entry.path(), owner)? } else { 1 };
    }
    Ok(count)
}

/// Asks `rev-parse`, where that was prepared, which commit is meant.
pub(super) fn resolve(call: Call, rev: &str) -> Result<String, GroundError> {
    let arguments = ["--verify", "--quiet", "--end-of-options"].map(OsString::from);
    let rev_of = OsString::from(format!("{rev}^{{commit}}"));
    // Whatever is not there is not fetched into the user's repository.
    let resolved = call.env("GIT_NO_LAZY_FETCH", "1").run(arguments.into_iter().chain([rev_of]));
    resolved.map(|out| line(&out)).map_err(|error| match error {
        // That there is none is no complaint: it was told to be quiet about it.
        GitError::Failed { said, .. } if said.is_empty() => GroundError::Refused {
            what: format!("there is no commit `{rev}` in the repository"),
            hint: Some(
                "`git log --oneline` shows what there is; a branch, a tag or a commit will do".to_owned(),
            ),
        },
        error => said(error),
    })
}

/// Says why a commit was not taken: what a repository left where it was cloned from is not fetched into it unasked.
fn not_whole(git: &Git, layout: &Layout, commit: &str, error: GitError) -> GroundError {
    let promised = git.call(&layout.own, "config").run(["--get-regexp", r"^remote\..*\.promisor$"]);
    let hint = promised.is_ok().then(|| {
        format!("the repository was cloned in part: `git archive {commit} >/dev/null` in it fetches what that commit lacks")
    });
    GroundError::Git { what: error.to_string(), hint }
}

fn hidden(error: &GitError, url: &str, plain: &str) -> String {
    error.to_string().replace(url, plain)
}

pub(super) fn said(error: GitError) -> GroundError {
    GroundError::Git { what: error.to_string(), hint: None }
}
