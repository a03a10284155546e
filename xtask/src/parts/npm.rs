//! Agents from npm, at exact versions: what they print is part of what we test.

use std::{
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
};

use super::{Context, Found, Missing};
use crate::{environment, failure::Failure, process::Program};

/// An agent, and how tests find it.
struct Agent {
    part: &'static str,
    package: &'static str,
    version: &'static str,
    variable: &'static str,
    /// The native program for a platform. The script beside it needs node, and starts slower.
    program: fn(&Platform) -> String,
}

/// How npm packages name this machine.
struct Platform {
    cpu: &'static str,
    triple: &'static str,
}

const AGENTS: [Agent; 2] = [
    Agent {
        part: "Claude Code",
        package: "@anthropic-ai/claude-code",
        version: "2.1.325",
        variable: "AGORA_TEST_CLAUDE",
        program: |platform| format!("@anthropic-ai/claude-code-linux-{}/claude", platform.cpu),
    },
    Agent {
        part: "Codex",
        package: "@openai/codex",
        version: "0.166.0",
        variable: "AGORA_TEST_CODEX",
        program: |platform| {
            format!("@openai/codex-linux-{}/vendor/{}/bin/codex", platform.cpu, platform.triple)
        },
    },
];

pub(super) fn provide(context: &Context) -> Vec<(&'static str, Result<Found, Missing>)> {
    let directory = context.directory.join("npm");
    // Said once, though it concerns all of them.
    let trouble = install(&directory)
        .err()
        .map(|failure| Missing::after(&failure, "install npm, and see that `npm view @openai/codex` works"));
    let find = |agent: &Agent| match &trouble {
        Some(Missing { why, remedy }) => Err(Missing::new(why, remedy)),
        None => find(context, &directory, agent),
    };
    AGENTS.iter().map(|agent| (agent.part, find(agent))).collect()
}

fn install(directory: &Path) -> Result<(), Failure> {
    let is_installed = |agent: &Agent| installed_version(directory, agent).as_deref() == Some(agent.version);
    if AGENTS.iter().all(is_installed) {
        return Ok(());
    }
    if environment::find_program("npm").is_none() {
        return Err(Failure::new("there is no `npm`"));
    }
    fs::create_dir_all(directory).map_err(|source| Failure::file("create", directory, &source))?;
    Program::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--save-exact", "--prefix"])
        .arg(directory)
        .args(AGENTS.iter().map(|agent| format!("{}@{}", agent.package, agent.version)))
        .run_quietly()?;
    Ok(())
}

fn find(context: &Context, directory: &Path, agent: &Agent) -> Result<Found, Missing> {
    let no_program =
        |why: String| Missing::new(why, "run on Linux with x86-64 or arm64, or remove `.parts/npm`");
    let platform = platform().ok_or_else(|| no_program(format!("no program for `{ARCH}`")))?;
    let program = modules(directory).join((agent.program)(&platform));
    if !program.is_file() {
        return Err(no_program(format!("the package has no `{}`", context.shown(&program))));
    }
    Ok(Found {
        version: agent.version.into(),
        place: context.shown(&program),
        variable: Some((agent.variable, program.into())),
    })
}

fn platform() -> Option<Platform> {
    match ARCH {
        "x86_64" => Some(Platform { cpu: "x64", triple: "x86_64-unknown-linux-musl" }),
        "aarch64" => Some(Platform { cpu: "arm64", triple: "aarch64-unknown-linux-musl" }),
        _ => None,
    }
}

fn installed_version(directory: &Path, agent: &Agent) -> Option<String> {
    version_of(&modules(directory), agent.package)
}

/// Returns the version of a package that is installed among others.
pub(super) fn version_of(modules: &Path, package: &str) -> Option<String> {
    version_in(&fs::read(modules.join(package).join("package.json")).ok()?)
}

fn version_in(package_json: &[u8]) -> Option<String> {
    let package: serde_json::Value = serde_json::from_slice(package_json).ok()?;
    package.get("version")?.as_str().map(str::to_owned)
}

fn modules(directory: &Path) -> PathBuf {
    directory.join("node_modules")
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn a_package_that_was_half_written_has_no_version() {
        assert_eq!(version_in(br#"{"name":"x","version":"2.1.325"}"#).as_deref(), Some("2.1.325"));
        assert_eq!(version_in(br#"{"name":"x","ver"#), None);
    }
}
