//! Clients of MCP that others wrote, and the suite that says what a server must do. In a place of their own: they want a newer Node than
//! most machines have, and under an older one npm quietly installs much older versions of them.

use std::{
    env::{join_paths, split_paths},
    fs,
    path::{Path, PathBuf},
};

use super::{Context, Found, Missing, npm};
use crate::{environment, failure::Failure, process::Program};

const NODE: (&str, &str) = ("node", "24.21.0");
const INSPECTOR: (&str, &str) = ("@modelcontextprotocol/inspector", "2.12.0");
const CONFORMANCE: (&str, &str) = ("@modelcontextprotocol/conformance", "0.2.0-alpha.12");
const PYTHON: (&str, &str) = ("mcp", "2.3.0");

pub(super) fn provide(context: &Context) -> Vec<(&'static str, Result<Found, Missing>)> {
    let directory = context.directory.join("mcp");
    let modules = directory.join("npm/node_modules");
    let trouble = install_npm(&directory.join("npm")).err();
    let trouble =
        trouble.map(|failure| Missing::after(&failure, "install npm, and see that `npm view node` works"));
    let from_npm = |(_, version): (&str, &str), path: &str, variable: &'static str| match &trouble {
        Some(Missing { why, remedy }) => Err(Missing::new(why, remedy)),
        None => found(context, version, &modules.join(path), variable),
    };
    vec![
        ("Node", from_npm(NODE, "node/bin/node", "AGORA_TEST_NODE")),
        (
            "MCP Inspector",
            from_npm(
                INSPECTOR,
                "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
                "AGORA_TEST_MCP_INSPECTOR",
            ),
        ),
        (
            "MCP conformance",
            from_npm(
                CONFORMANCE,
                "@modelcontextprotocol/conformance/dist/index.js",
                "AGORA_TEST_MCP_CONFORMANCE",
            ),
        ),
        ("mcp (Python)", python(context, &directory.join("python"))),
    ]
}

fn found(context: &Context, version: &str, path: &Path, variable: &'static str) -> Result<Found, Missing> {
    if !path.is_file() {
        let why = format!("the package has no `{}`", context.shown(path));
        return Err(Missing::new(why, "remove `.parts/mcp/npm` and try again"));
    }
    Ok(Found { version: version.into(), place: context.shown(path), variable: Some((variable, path.into())) })
}

/// Installs Node first: what comes after is chosen by the version that runs npm.
fn install_npm(directory: &Path) -> Result<(), Failure> {
    let modules = directory.join("node_modules");
    let all = [NODE, INSPECTOR, CONFORMANCE];
    if all.iter().all(|(package, version)| npm::version_of(&modules, package).as_deref() == Some(version)) {
        return Ok(());
    }
    if environment::find_program("npm").is_none() {
        return Err(Failure::new("there is no `npm`"));
    }
    fs::create_dir_all(directory).map_err(|source| Failure::file("create", directory, &source))?;
    let install = |path: &std::ffi::OsStr, packages: &[(&str, &str)]| {
        Program::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--save-exact", "--prefix"])
            .arg(directory)
            .args(packages.iter().map(|(package, version)| format!("{package}@{version}")))
            .env("PATH", path)
            .run_quietly()
    };
    let before = environment::search_path();
    install(&before, &[NODE])?;
    let own = modules.join("node/bin");
    let with_own = join_paths(std::iter::once(own).chain(split_paths(&before)));
    install(&with_own.unwrap_or(before), &[INSPECTOR, CONFORMANCE]).map(drop)
}

fn python(context: &Context, directory: &Path) -> Result<Found, Missing> {
    let python = directory.join("bin/python");
    let (package, version) = PYTHON;
    install_python(directory, &python).map_err(|failure| {
        Missing::after(&failure, format!("see that `python3 -m venv` and `pip download {package}` work"))
    })?;
    found(context, version, &python, "AGORA_TEST_MCP_PYTHON")
}

fn install_python(directory: &Path, python: &PathBuf) -> Result<(), Failure> {
    let (package, version) = PYTHON;
    let ask = format!("import importlib.metadata as m; print(m.version('{package}'))");
    let installed = Program::new(python).arg("-c").arg(ask).run_quietly();
    if installed.is_ok_and(|installed| installed.trim() == version) {
        return Ok(());
    }
    Program::new("python3").args(["-m", "venv", "--clear"]).arg(directory).run_quietly()?;
    Program::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("{package}=={version}"))
        .run_quietly()
        .map(drop)
}
