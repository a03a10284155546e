//! Debian packages. All that are missing are installed by one `apt-get`, which is slow to start.

use std::path::{Path, PathBuf};

use super::{Context, Missing};
use crate::{console, environment, failure::Failure, process::Program};

/// A package, and how to see that what it brings is there already, from wherever.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
}

const WANTED: [Package; 8] = [
    Package { name: "docker.io", is_there: || environment::find_program("dockerd").is_some() },
    Package { name: "podman", is_there: || environment::find_program("podman").is_some() },
    // What Podman needs beside itself, and Debian only recommends.
    Package { name: "runc", is_there: || environment::find_program("runc").is_some() },
    Package { name: "netavark", is_there: || Path::new("/usr/lib/podman/netavark").exists() },
    Package { name: "uidmap", is_there: || environment::find_program("newuidmap").is_some() },
    Package { name: "catatonit", is_there: || environment::find_program("catatonit").is_some() },
    Package { name: "npm", is_there: || environment::find_program("npm").is_some() },
    Package { name: "python3-venv", is_there: has_venv },
];

/// How long to wait for another apt, as on a machine that was just started.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=120";

/// The packages of this machine after what could be done about them.
#[derive(Debug)]
pub(super) struct Packages {
    /// Why a package that is not there could not be installed.
    trouble: String,
}

impl Packages {
    pub(super) fn provide(context: &Context) -> Self {
        let missing = WANTED.iter().filter(|package| !(package.is_there)());
        let missing: Vec<&str> = missing.map(|package| package.name).collect();
        match install(context, &missing) {
            Ok(()) => Self { trouble: String::new() },
            Err(failure) => {
                console::progress(&failure.to_string());
                Self { trouble: failure.on_one_line() }
            }
        }
    }

    /// Returns where a program of a package is.
    pub(super) fn program(&self, package: &str, name: &str) -> Result<PathBuf, Missing> {
        environment::find_program(name).ok_or_else(|| {
            Missing::new(
                format!("there is no `{name}`: {}", self.trouble),
                format!("run `apt-get install {package}`, or `cargo xtask test --provision`"),
            )
        })
    }
}

fn install(context: &Context, packages: &[&str]) -> Result<(), Failure> {
    if packages.is_empty() {
        return Ok(());
    }
    apt_get(context)?.arg("update").run_quietly()?;
    apt_get(context)?.args(["install", "--yes", "--no-install-recommends"]).args(packages).run_quietly()?;
    Ok(())
}

fn apt_get(context: &Context) -> Result<Program, Failure> {
    let program = context.privilege.program().ok_or_else(|| Failure::new("not installed, and not root"))?;
    if environment::find_program("apt-get").is_none() {
        return Err(Failure::new("not installed, and this is not a Debian system"));
    }
    Ok(program.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "-o", LOCK_TIMEOUT]))
}

/// Debian keeps the half of `venv` that installs pip in a package of its own.
fn has_venv() -> bool {
    Program::new("python3").args(["-c", "import ensurepip, venv"]).run_quietly().is_ok()
}
