//! Which loader and which libraries a program needs: the loader itself is asked, as it would be at the program's start.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};

/// What a file is that shall run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Needs nothing but the kernel.
    Static,
    /// Needs this loader.
    Dynamic(PathBuf),
    /// Begins with `#!`: needs another program.
    Script(String),
    Other,
}

/// How much of a file says what it is: the headers are at its beginning.
const HEAD: u64 = 64 * 1024;
/// A loader's list has a line for each library.
const LONGEST: u64 = 1024 * 1024;

/// Finds out what a file is.
pub(super) fn look(path: &Path) -> io::Result<Program> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        return Ok(Program::Script(String::from_utf8_lossy(line).trim().to_owned()));
    }
    Ok(parse(&head).unwrap_or(Program::Other))
}

fn parse(head: &[u8]) -> Option<Program> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, head).ok()? {
        if let Ok(Some(loader)) = segment.interpreter(endian, head) {
            return Some(Program::Dynamic(String::from_utf8_lossy(loader).into_owned().into()));
        }
    }
    Some(Program::Static)
}

/// Returns the files that a program is loaded with, by the names that it is loaded by; the loader's own is among them.
#[expect(clippy::disallowed_methods, reason = "only the loader knows where it looks")]
pub(super) fn libraries(loader: &Path, program: &Path) -> io::Result<Vec<PathBuf>> {
    let mut child = Command::new(loader)
        .arg("--list")
        .arg(program)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut list = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(LONGEST).read_to_string(&mut list)?;
    }
    if !child.wait()?.success() {
        return Err(io::Error::other(format!("`{} --list` fails for it", loader.display())));
    }
    match read(&list) {
        Ok(mut found) => {
            found.push(loader.to_owned());
            found.sort();
            found.dedup();
            Ok(found)
        }
        Err(missing) => Err(io::Error::other(format!("it needs `{missing}`, which is not on this machine"))),
    }
}

/// Reads `name => /path (0x…)`, and `/path (0x…)`. What has no path is the kernel's.
fn read(list: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in list.lines().map(str::trim) {
        let (name, rest) = line.split_once(" => ").unwrap_or(("", line));
        if rest.starts_with("not found") {
            return Err(name.to_owned());
        }
        let path = rest.rsplit_once(" (").map_or(rest, |(path, _)| path);
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_s_list_is_read() {
        let list = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(read(list).unwrap(), [Path::new("/lib/x/libc.so.6"), Path::new("/lib64/ld.so.2")]);
        assert_eq!(read("\tlibx.so => not found\n").unwrap_err(), "libx.so");
    }

    #[test]
    fn a_program_tells_what_it_is() {
        let dir = std::env::temp_dir();
        let script = dir.join(format!("agora-elf-{}", std::process::id()));
        std::fs::write(&script, "#!/usr/bin/env node\nx").unwrap();
        assert_eq!(look(&script).unwrap(), Program::Script("/usr/bin/env node".into()));
        std::fs::write(&script, "text").unwrap();
        assert_eq!(look(&script).unwrap(), Program::Other);
        std::fs::remove_file(&script).unwrap();
        if let Program::Dynamic(loader) = look(Path::new("/bin/sh")).unwrap() {
            let found = libraries(&loader, Path::new("/bin/sh")).unwrap();
            assert!(found.iter().any(|path| path.to_string_lossy().contains("libc")), "{found:?}");
            assert!(found.contains(&loader));
        }
    }
}
