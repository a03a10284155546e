//! The only place that reads the environment of xtask.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Where Debian keeps daemons: not on the `PATH` of an ordinary user.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Returns whether this is a CI machine, where a part that is missing is a failure.
pub(crate) fn is_ci() -> bool {
    read("CI").is_some_and(|value| value == "true")
}

/// Returns how many open questions a benchmark is to hold, if somebody says.
pub(crate) fn bench_questions() -> Option<u64> {
    read("AGORA_BENCH_QUESTIONS")?.to_str()?.parse().ok().filter(|count| *count > 0)
}

/// Returns the cargo that runs us, so that nested calls use the same toolchain.
pub(crate) fn cargo() -> OsString {
    read("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns the directory of this crate: from cargo when it runs us, else where we were built.
pub(crate) fn manifest_directory() -> PathBuf {
    read("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into()
}

/// Returns the Docker daemon that the user chose, if any.
pub(crate) fn docker_host() -> Option<String> {
    read("DOCKER_HOST").and_then(|host| host.into_string().ok()).filter(|host| !host.is_empty())
}

/// Returns the `PATH`, with the directories of daemons at its end.
pub(crate) fn search_path() -> OsString {
    let own = read("PATH").unwrap_or_default();
    let system = SYSTEM_DIRECTORIES.iter().map(PathBuf::from);
    env::join_paths(env::split_paths(&own).chain(system)).unwrap_or(own)
}

/// Returns where a program is, if it is on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    find_in(&search_path(), name)
}

fn find_in(search_path: &OsString, name: &str) -> Option<PathBuf> {
    env::split_paths(search_path).map(|directory| directory.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[expect(clippy::disallowed_methods, reason = "this module is the one door to the environment")]
fn read(variable: &str) -> Option<OsString> {
    env::var_os(variable)
}

#[cfg(test)]
mod tests {
    use super::find_in;

    #[test]
    fn only_executable_files_are_programs() {
        assert!(find_in(&"/nowhere:/bin".into(), "sh").is_some());
        assert!(find_in(&"/etc".into(), "passwd").is_none());
    }
}
