//! Layers by overlayfs: what changed is what the upper ones hold.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::lay::{Lower, Paths};
use crate::archive::{give_away, remove};

/// How overlayfs marks a directory that hides what is below it: as root, and as anybody else.
const OPAQUE: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];
/// The kernel takes the options of a mount in one page.
const OPTIONS: usize = 4000;

#[derive(Debug)]
pub(super) struct Layered {
    dir: PathBuf,
    work: PathBuf,
    lower: Vec<PathBuf>,
    gone: Vec<PathBuf>,
    /// The layers that were written, the oldest first. The last one is being written.
    upper: Vec<PathBuf>,
    /// Where each frozen state can be read: that of all layers up to the one of its number.
    views: Vec<PathBuf>,
    count: usize,
}

impl Layered {
    /// Mounts the first layer on the workspace.
    pub(super) fn mount(lower: &Lower, dir: &Path, work: &Path) -> io::Result<Self> {
        super::enter::entered()?;
        let mut layered = Self {
            dir: dir.to_owned(),
            work: work.to_owned(),
            lower: lower.trees.clone(),
            gone: lower.gone.clone(),
            upper: Vec::new(),
            views: Vec::new(),
            count: 0,
        };
        layered.add_layer()?;
        lower.remove_gone(work)?;
        Ok(layered)
    }

    /// Returns the trees below all layers, and what of them is not there.
    pub(super) fn made_from(&self) -> (&[PathBuf], &[PathBuf]) {
        (&self.lower, &self.gone)
    }

    pub(super) fn start_over(&mut self) -> io::Result<()> {
        for view in self.views.drain(..) {
            unmount(&view, UnmountFlags::DETACH)?;
        }
        unmount(&self.work, UnmountFlags::DETACH)?;
        self.upper.clear();
        self.add_layer()?;
        for path in &self.gone {
            remove(&self.work.join(path))?;
        }
        Ok(())
    }

    pub(super) fn freeze(&mut self) -> io::Result<PathBuf> {
        unmount(&self.work, UnmountFlags::DETACH)?;
        let view = self.dir.join(format!("view-{}", self.count));
        fs::create_dir_all(&view)?;
        let options = format!("lowerdir={}{}", self.below()?, common());
        mount(
            "overlay",
            &view,
            "overlay",
            MountFlags::RDONLY | MountFlags::NODEV,
            Some(&*cstring(options)?),
        )?;
        self.views.push(view.clone());
        self.add_layer()?;
        Ok(view)
    }

    /// Mounts everything there is, and a new layer that takes what is written.
    fn add_layer(&mut self) -> io::Result<()> {
        self.count += 1;
        let (upper, own) = (
            self.dir.join(format!("upper-{}", self.count)),
            self.dir.join(format!("overlay-{}", self.count)),
        );
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(&own)?;
        // The merged directory looks like the topmost one.
        fs::set_permissions(&upper, fs::Permissions::from_mode(0o755))?;
        give_away(&upper)?;
        let options = format!(
            "lowerdir={},upperdir={},workdir={}{}",
            self.below()?,
            option(&upper)?,
            option(&own)?,
            common()
        );
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        mount("overlay", &self.work, "overlay", flags, Some(&*cstring(options)?))?;
        self.upper.push(upper);
        Ok(())
    }

    /// Lists all layers, the topmost first.
    fn below(&self) -> io::Result<String> {
        let all = self.upper.iter().rev().chain(&self.lower);
        Ok(all.map(|path| option(path)).collect::<io::Result<Vec<_>>>()?.join(":"))
    }

    pub(super) fn changed_since(&self, level: usize) -> io::Result<Paths> {
        let mut paths = Paths::default();
        for (number, upper) in self.upper.iter().enumerate().skip(level + 1) {
            let Some(below) = self.views.get(number - 1) else { continue };
            scan(upper, below, Path::new(""), false, &mut paths)?;
        }
        Ok(paths)
    }

    pub(super) fn changed_until(&self, level: usize) -> io::Result<Paths> {
        let mut paths = Paths::default();
        for (number, upper) in self.upper.iter().enumerate().take(level + 1) {
            match number.checked_sub(1).and_then(|below| self.views.get(below)) {
                Some(below) => scan(upper, below, Path::new(""), false, &mut paths)?,
                None => {
                    for lower in &self.lower {
                        scan(upper, lower, Path::new(""), false, &mut paths)?;
                    }
                }
            }
        }
        Ok(paths)
    }
}

/// Names every path that a layer changes, with all that it hides of what is below.
fn scan(upper: &Path, below: &Path, at: &Path, hides: bool, paths: &mut Paths) -> io::Result<()> {
    if hides {
        hidden(upper, below, at, paths)?;
    }
    for entry in paths.list(&upper.join(at))? {
        let path = at.join(entry.file_name());
        let data = entry.metadata()?;
        paths.push(&path);
        if data.file_type().is_char_device() && data.rdev() == 0 {
            everything(below, &path, paths)?;
        } else if data.is_dir() {
            let hides = hides || is_opaque(&entry.path());
            // What was no directory below has nothing to hide.
            scan(upper, below, &path, hides && is_dir(&below.join(&path)), paths)?;
        } else if is_dir(&below.join(&path)) {
            everything(below, &path, paths)?;
        }
    }
    Ok(())
}

fn hidden(upper: &Path, below: &Path, at: &Path, paths: &mut Paths) -> io::Result<()> {
    for entry in paths.list(&below.join(at))? {
        let path = at.join(entry.file_name());
        if fs::symlink_metadata(upper.join(&path)).is_err() {
            paths.push(&path);
            everything(below, &path, paths)?;
        }
    }
    Ok(())
}

/// Names everything that lies in a directory.
fn everything(tree: &Path, at: &Path, paths: &mut Paths) -> io::Result<()> {
    if !is_dir(&tree.join(at)) {
        return Ok(());
    }
    for entry in paths.list(&tree.join(at))? {
        let path = at.join(entry.file_name());
        paths.push(&path);
        if entry.file_type()?.is_dir() {
            everything(tree, &path, paths)?;
        }
    }
    Ok(())
}

fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.is_dir())
}

fn is_opaque(dir: &Path) -> bool {
    let mut value = [0; 1];
    OPAQUE.iter().any(|name| {
        rustix::fs::lgetxattr(dir, *name, &mut value[..]).is_ok_and(|len| len == 1 && value == *b"y")
    })
}

/// Whatever a kernel was built to prefer: a layer's directories are what they seem, and hold whole files.
fn common() -> &'static str {
    if rustix::process::geteuid().is_root() {
        ",redirect_dir=nofollow,metacopy=off,index=off"
    } else {
        ",redirect_dir=nofollow,metacopy=off,index=off,userxattr"
    }
}

/// Writes a path as an option of a mount, in which some characters mean something.
fn option(path: &Path) -> io::Result<String> {
    let text = path.to_str().ok_or_else(|| io::Error::other("a path is no text"))?;
    let mut out = String::new();
    for character in text.chars() {
        if matches!(character, '\\' | ':' | ',') {
            out.push('\\');
        }
        out.push(character);
    }
    Ok(out)
}

fn cstring(options: String) -> io::Result<std::ffi::CString> {
    if options.len() > OPTIONS {
        return Err(io::Error::other("the names of the layers are too long for a mount"));
    }
    Ok(std::ffi::CString::new(std::ffi::OsString::from(options).as_bytes())?)
}
