//! Files that the agent hands out: what it put into `.agora/outputs/`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agora_core::ContentHash;
use agora_core::wire::report::{Artifact, LeftOut, OutputFile};

use crate::needs_input::DIR;
use crate::needs_input::file::{self, Found};
use crate::redact::Redactor;

const OUTPUTS: &str = "outputs";
const LARGEST: u64 = 32 * 1024 * 1024;
const LARGEST_TOGETHER: u64 = 256 * 1024 * 1024;
const MOST: usize = 1000;

/// Copies the outputs below `out`, with secrets hidden. What is left out is said.
pub(crate) fn collect(work: &Path, out: &Path, redactor: &Redactor) -> (Vec<OutputFile>, Vec<LeftOut>) {
    let mut collector = Collector { work, out, redactor, files: Vec::new(), left_out: Vec::new(), bytes: 0 };
    let root = Path::new(DIR).join(OUTPUTS);
    if fs::symlink_metadata(work.join(&root)).is_ok_and(|data| data.is_dir()) {
        collector.directory(&root);
    }
    (collector.files, collector.left_out)
}

struct Collector<'a> {
    work: &'a Path,
    out: &'a Path,
    redactor: &'a Redactor,
    files: Vec<OutputFile>,
    left_out: Vec<LeftOut>,
    bytes: u64,
}

impl Collector<'_> {
    fn directory(&mut self, dir: &Path) {
        let names = fs::read_dir(self.work.join(dir)).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
        });
        let mut names = match names {
            Ok(names) => names,
            Err(error) => return self.leave_out(dir, &error.to_string()),
        };
        names.sort();
        for name in names {
            let path = dir.join(name);
            match fs::symlink_metadata(self.work.join(&path)) {
                Ok(data) if data.is_dir() => self.directory(&path),
                Ok(_) if self.files.len() + self.left_out.len() >= MOST => {
                    return self.leave_out(&path, "there are too many files; the rest is left out as well");
                }
                Ok(_) => self.file(&path),
                Err(error) => self.leave_out(&path, &error.to_string()),
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let bytes = match file::read(self.work, path, LARGEST) {
            Ok(Found::Bytes(bytes)) if bytes.len() as u64 > LARGEST => {
                return self.leave_out(path, "it is larger than 32 MiB");
            }
            Ok(Found::Bytes(bytes)) => bytes,
            Ok(Found::Nothing) => return,
            Ok(Found::NotAFile(what)) => return self.leave_out(path, &format!("it is {what}")),
            Err(error) => return self.leave_out(path, &error.to_string()),
        };
        let Some(below) = below(path).filter(|below| !self.redactor.holds(below.as_bytes())) else {
            return self.leave_out(Path::new("(redacted)"), "its name is not UTF-8, or holds a secret");
        };
        if self.bytes + bytes.len() as u64 > LARGEST_TOGETHER {
            return self.leave_out(path, "all outputs together are larger than 256 MiB");
        }
        let hidden = self.redactor.bytes(&bytes);
        let redacted = matches!(hidden, std::borrow::Cow::Owned(_));
        if redacted && str::from_utf8(&bytes).is_err() {
            return self.leave_out(path, "it is binary and holds a secret");
        }
        match self.keep(&below, &hidden) {
            Ok(artifact) => {
                self.bytes += bytes.len() as u64;
                self.files.push(OutputFile { path: below, artifact, redacted });
            }
            Err(error) => self.leave_out(path, &error.to_string()),
        }
    }

    fn keep(&self, below: &str, bytes: &[u8]) -> io::Result<Artifact> {
        let path = PathBuf::from(OUTPUTS).join(below);
        let target = self.out.join(&path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, bytes)?;
        let size = bytes.len() as u64;
        Ok(Artifact { path: path.display().to_string(), size, sha256: ContentHash::of(bytes) })
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        let path = below(path).unwrap_or_else(|| path.display().to_string());
        let path = self.redactor.text(&path).into_owned();
        self.left_out.push(LeftOut { path, why: why.to_owned() });
    }
}

/// Returns a path from the outputs' directory.
fn below(path: &Path) -> Option<String> {
    path.strip_prefix(Path::new(DIR).join(OUTPUTS)).ok()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use agora_core::secret::{SecretValue, ShortSecrets};

    use super::*;

    #[test]
    fn text_is_redacted_binaries_with_secrets_and_links_are_left_out() {
        let (work, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = work.path().join(".agora/outputs");
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(dir.join("report.md"), "all good").unwrap();
        fs::write(dir.join("sub/log.txt"), "key hunter2hunter2 end").unwrap();
        fs::write(dir.join("core.bin"), b"\xffhunter2hunter2\x00").unwrap();
        fs::write(dir.join("fine.bin"), b"\xff\x00").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.join("passwd")).unwrap();
        let secret = SecretValue::new("hunter2hunter2".to_owned(), ShortSecrets::Refuse).unwrap();
        let redactor = Redactor::new([&secret]).unwrap();
        let (files, left_out) = collect(work.path(), out.path(), &redactor);
        let names: Vec<(&str, bool)> = files.iter().map(|file| (file.path.as_str(), file.redacted)).collect();
        assert_eq!(names, [("fine.bin", false), ("report.md", false), ("sub/log.txt", true)]);
        let left: Vec<&str> = left_out.iter().map(|left| left.path.as_str()).collect();
        assert_eq!(left, ["core.bin", "passwd"]);
        let log = fs::read(out.path().join("outputs/sub/log.txt")).unwrap();
        assert_eq!(String::from_utf8(log).unwrap(), "key <redacted:secret> end");
        assert_eq!(collect(out.path(), out.path(), &redactor), (Vec::new(), Vec::new()));
    }
}
