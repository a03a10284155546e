//! Python packages that second our own code, in an environment of their own.

use std::path::{Path, PathBuf};

use super::{Context, Found, Missing};
use crate::{failure::Failure, process::Program};

/// Another implementation of the canonical JSON that our hashes rest on.
const CANONICAL_JSON: &str = "rfc8785";
const CANONICAL_JSON_VERSION: &str = "0.1.4";

pub(super) fn provide(context: &Context) -> Vec<(&'static str, Result<Found, Missing>)> {
    let directory = context.directory.join("python");
    let python = directory.join("bin/python");
    let found = match install(&directory, &python) {
        Ok(()) => Ok(Found {
            version: CANONICAL_JSON_VERSION.into(),
            place: context.shown(&python),
            variable: Some(("AGORA_TEST_PYTHON", python.into())),
        }),
        Err(failure) => Err(Missing::after(
            &failure,
            format!(
                "see that `python3 -m venv` (`apt-get install python3-venv`) and `pip download {CANONICAL_JSON}` work"
            ),
        )),
    };
    vec![("rfc8785 (Python)", found)]
}

fn install(directory: &Path, python: &PathBuf) -> Result<(), Failure> {
    if is_installed(python) {
        return Ok(());
    }
    // Also when there is one already: it may link to a Python that is gone.
    Program::new("python3").args(["-m", "venv", "--clear"]).arg(directory).run_quietly()?;
    Program::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("{CANONICAL_JSON}=={CANONICAL_JSON_VERSION}"))
        .run_quietly()?;
    Ok(())
}

fn is_installed(python: &PathBuf) -> bool {
    let ask = format!("import importlib.metadata as m; print(m.version('{CANONICAL_JSON}'))");
    let version = Program::new(python).arg("-c").arg(ask).run_quietly();
    version.is_ok_and(|version| version.trim() == CANONICAL_JSON_VERSION)
}
