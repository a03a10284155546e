//! Which version of a runtime is installed, found without starting it, and whether it can go on with a conversation of another one.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Environment, Runtime};

/// More than a package says about itself.
const PACKAGE_BYTES: u64 = 256 * 1024;
/// From a program up to the directory of its package.
const ABOVE: usize = 5;

/// Returns the version of the program that a runtime would start, where that stands beside it. `None`: nobody can tell.
pub(crate) fn installed(runtime: &Runtime, environment: &Environment) -> Option<String> {
    let name = match runtime {
        Runtime::Claude => "claude",
        Runtime::Codex => "codex",
        Runtime::Command | Runtime::External(_) => return None,
    };
    of_program(&find(name, environment)?)
}

fn find(name: &str, environment: &Environment) -> Option<PathBuf> {
    let path = environment.0.get(std::ffi::OsStr::new("PATH"))?;
    let found = std::env::split_paths(path).map(|dir| dir.join(name)).find(|path| path.is_file())?;
    fs::canonicalize(found).ok()
}

/// Reads the version of a program: its own name where versions lie side by side, else the package that it is part of.
fn of_program(program: &Path) -> Option<String> {
    let own = program.file_name().and_then(|name| name.to_str()).filter(|name| parts(name).is_some());
    if let Some(own) = own {
        return plain(own);
    }
    let package = program.ancestors().skip(1).take(ABOVE).map(|dir| dir.join("package.json"));
    let package = package.into_iter().find(|path| path.is_file())?;
    let mut text = String::new();
    File::open(package).ok()?.take(PACKAGE_BYTES).read_to_string(&mut text).ok()?;
    let package: Value = serde_json::from_str(&text).ok()?;
    plain(package["version"].as_str()?)
}

/// Returns a version without what it was built for: `0.166.0` of `0.166.0-linux-x64`.
fn plain(version: &str) -> Option<String> {
    parts(version).map(|(major, minor, patch)| format!("{major}.{minor}.{patch}"))
}

fn parts(version: &str) -> Option<(u64, u64, u64)> {
    let numbers = version.split(['-', '+', ' ']).next()?;
    let mut numbers = numbers.split('.').map(|number| number.parse::<u64>().ok());
    let all = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(all)
}

/// Tells whether a runtime can go on with a conversation that a version of it kept: runtimes read what older ones of the same major
/// version wrote, and none reads what a newer one wrote. What nobody can tell is tried.
pub(crate) fn is_compatible(kept_by: Option<&str>, installed: Option<&str>) -> bool {
    match (kept_by.and_then(parts), installed.and_then(parts)) {
        (Some(kept_by), Some(installed)) => kept_by.0 == installed.0 && kept_by <= installed,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stands_in_the_package_or_is_the_program_s_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("node_modules/@openai/codex");
        let program = package.join("vendor/x/bin/codex");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        assert_eq!(of_program(&program), None);
        fs::write(package.join("package.json"), r#"{"version": "0.166.0-linux-x64"}"#).unwrap();
        assert_eq!(of_program(&program), Some("0.166.0".to_owned()));
        fs::write(package.join("package.json"), "{").unwrap();
        assert_eq!(of_program(&program), None);
        assert_eq!(of_program(Path::new("/x/versions/2.1.325")), Some("2.1.325".to_owned()));
    }

    #[test]
    fn a_newer_runtime_goes_on_with_what_an_older_one_kept_and_no_other_does() {
        let goes_on = |kept_by, installed| is_compatible(Some(kept_by), Some(installed));
        assert!(goes_on("2.1.325", "2.1.325") && goes_on("2.1.325", "2.2.0") && goes_on("2.1.9", "2.1.10"));
        assert!(
            !goes_on("2.1.325", "2.1.324") && !goes_on("2.1.325", "3.0.0") && !goes_on("99.0.0", "2.1.325")
        );
        assert!(is_compatible(None, Some("2.1.325")) && is_compatible(Some("2.1.325"), None));
        assert!(goes_on("of tomorrow", "2.1.325"), "nobody can tell");
    }
}
