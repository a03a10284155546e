//! The programs that agora starts: where they are, and whether they start at all.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agora_worker::child::{Brief, Heard, hear};
use rustix::fs::{Access, access};

use super::{Finding, Status, Surroundings, in_one_line, printable};

/// A cold start of a large Node program takes seconds; one that takes longer than this hangs.
const DEADLINE: Duration = Duration::from_secs(10);
/// A version is one short line.
const LONGEST_ANSWER: usize = 4096;

/// A program that is looked for by name.
#[derive(Debug)]
pub(super) struct Tool {
    name: &'static str,
    install: &'static str,
    /// What is not possible without it.
    needed_for: &'static str,
}

pub(super) const CLAUDE: Tool = Tool {
    name: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    needed_for: "subagents with the claude-code runtime",
};
pub(super) const CODEX: Tool = Tool {
    name: "codex",
    install: "npm install -g @openai/codex",
    needed_for: "subagents with the codex runtime",
};
pub(super) const GIT: Tool = Tool {
    name: "git",
    install: "install it with the system's package manager, for example `sudo apt-get install git`",
    needed_for: "`agora apply`",
};

impl Tool {
    pub(super) fn examine(&self, surroundings: &Surroundings) -> Finding {
        self.examine_within(surroundings, DEADLINE)
    }

    fn examine_within(&self, surroundings: &Surroundings, deadline: Duration) -> Finding {
        let path = surroundings.path.clone().unwrap_or_default();
        let Some(program) = find(&path, self.name) else { return self.missing(surroundings) };
        let place = program.canonicalize().unwrap_or_else(|_| program.clone());
        match version(&program, path, deadline) {
            Ok(version) => Finding::ok(self.name, format!("{version} at `{}`", place.display())),
            Err(why) => {
                let detail = format!("`{}` does not tell its version: {why}", place.display());
                Finding::bad(self.name, Status::Broken, detail, format!("install it again: {}", self.install))
            }
        }
    }

    fn missing(&self, surroundings: &Surroundings) -> Finding {
        let detail = format!("not on PATH; needed for {}", self.needed_for);
        // Where the vendors' own installers put it, without always telling the shell.
        let known = surroundings.user_home.as_ref().map(|home| home.join(".local/bin"));
        let fix = match known.filter(|dir| is_program(&dir.join(self.name))) {
            Some(dir) => format!("it is in `{0}`: export PATH=\"{0}:$PATH\"", dir.display()),
            None => self.install.to_owned(),
        };
        Finding::bad(self.name, Status::Missing, detail, fix)
    }
}

/// Returns the first executable regular file of that name. Relative entries of PATH, and empty ones, which mean
/// the current directory, are passed over: they would let a project choose the program.
fn find(path: &OsStr, name: &str) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Asks for the version with an empty HOME, so that nothing of the user's is read, and nothing is left there.
fn version(program: &Path, path: OsString, deadline: Duration) -> Result<String, String> {
    let home = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let brief = Brief {
        program: program.to_owned(),
        arguments: vec!["--version".into()],
        environment: vec![("PATH".into(), path), ("HOME".into(), home.path().into())],
        deadline,
        keep: LONGEST_ANSWER,
    };
    let Heard { status, stdout, stderr } = hear(&brief).map_err(|error| in_one_line(&error))?;
    let said = |stream: &[u8]| printable(&String::from_utf8_lossy(stream));
    match said(&stdout) {
        _ if !status.success() => {
            Err(format!("it ended with {status} {}", said(&stderr)).trim_end().to_owned())
        }
        line if line.is_empty() => Err("it said nothing".to_owned()),
        line => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::LONGEST_QUOTE;
    use super::super::tests::{Scripts, surroundings};
    use super::*;

    fn examined(scripts: &Scripts, deadline: Duration) -> Finding {
        // The real PATH behind ours gives the scripts their commands.
        let path = scripts.path_before("/usr/bin:/bin");
        CLAUDE.examine_within(&surroundings(|here| here.path = Some(path)), deadline)
    }

    #[test]
    fn a_version_is_shown_with_where_the_link_leads() {
        let scripts = Scripts::new();
        let real = scripts.add("lib/claude-real", r#"[ "$*" = --version ] && echo "2.1.325 (Claude Code)""#);
        symlink(&real, scripts.dir().join("claude")).unwrap();
        let real = real.canonicalize().unwrap();
        let expected = Finding::ok("claude", format!("2.1.325 (Claude Code) at `{}`", real.display()));
        assert_eq!(examined(&scripts, DEADLINE), expected);
    }

    #[test]
    fn it_sees_an_empty_home_and_no_variables() {
        let scripts = Scripts::new();
        scripts.add(
            "claude",
            r#"echo "$(ls -A "$HOME" | wc -l | tr -d ' ') $(env | cut -d= -f1 | sort | tr '\n' ' ')""#,
        );
        let detail = examined(&scripts, DEADLINE).detail;
        // PWD and _ are the shell's own.
        let seen: Vec<&str> = detail.split(" at ").next().unwrap().split(' ').collect();
        let seen: Vec<&str> =
            seen.into_iter().filter(|name| !["PWD", "_", "SHLVL", "OLDPWD"].contains(name)).collect();
        assert_eq!(seen, ["0", "HOME", "PATH"]);
    }

    #[test]
    fn one_that_hangs_is_killed() {
        let scripts = Scripts::new();
        scripts.add("claude", "sleep 1000 & sleep 1000");
        let finding = examined(&scripts, Duration::from_millis(100));
        assert_eq!(finding.status, Status::Broken);
        assert!(finding.detail.contains("did not end within 0.1 seconds"), "{finding:?}");
    }

    #[test]
    fn one_that_floods_is_cut() {
        let scripts = Scripts::new();
        scripts.add("claude", "head -c 1048576 /dev/zero | tr '\\0' x");
        let finding = examined(&scripts, DEADLINE);
        assert_eq!(finding.status, Status::Ok);
        assert!(finding.detail.starts_with(&format!("{} at `", "x".repeat(LONGEST_QUOTE))), "{finding:?}");
    }

    #[test]
    fn one_that_fails_says_why() {
        let scripts = Scripts::new();
        scripts.add("claude", "echo 'node: not found' >&2; exit 127");
        let finding = examined(&scripts, DEADLINE);
        assert_eq!(finding.status, Status::Broken);
        assert!(finding.detail.ends_with("it ended with exit status: 127 node: not found"), "{finding:?}");
    }

    #[test]
    fn what_is_no_program_is_passed_over() {
        let scripts = Scripts::new();
        fs::write(scripts.dir().join("codex"), "not executable").unwrap();
        fs::create_dir(scripts.dir().join("git")).unwrap();
        let path = scripts.path_before("relative::/nowhere");
        assert_eq!(find(&path, "codex"), None);
        assert_eq!(find(&path, "git"), None);
        let finding = CODEX.examine(&surroundings(|here| here.path = Some(path)));
        assert_eq!((finding.status, finding.fix.as_deref()), (Status::Missing, Some(CODEX.install)));
    }

    #[test]
    fn one_that_is_off_the_path_is_pointed_at() {
        let scripts = Scripts::new();
        let dir = scripts.add(".local/bin/claude", "").parent().unwrap().to_owned();
        let here = surroundings(|here| here.user_home = Some(scripts.dir().into()));
        let expected = format!("it is in `{0}`: export PATH=\"{0}:$PATH\"", dir.display());
        assert_eq!(CLAUDE.examine(&here).fix, Some(expected));
    }
}
