//! The built command in a sealed environment: nothing of the user's machine reaches it but the file system.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A place of its own: home, state and current directory.
#[derive(Debug)]
pub struct Cli {
    binary: PathBuf,
    root: TempDir,
}

/// What a command did. Look at it, or say that it must have succeeded.
#[must_use]
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Cli {
    /// Makes a place for a binary: `Cli::new(env!("CARGO_BIN_EXE_agora"))`.
    pub fn new(binary: &str) -> Self {
        let root = tempfile::Builder::new().prefix("agora-test").tempdir().unwrap();
        for dir in ["home", "work"] {
            fs::create_dir(root.path().join(dir)).unwrap();
        }
        Self { binary: PathBuf::from(binary), root }
    }

    /// Returns `$AGORA_HOME`.
    pub fn agora_home(&self) -> PathBuf {
        self.root.path().join("agora")
    }

    /// Returns the current directory of the commands.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Writes a file below the current directory.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes the user's `agora.toml`.
    pub fn settings(&self, text: &str) {
        let dir = self.root.path().join("home/.config/agora");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("agora.toml"), text).unwrap();
    }

    /// Lets agents behind the wall write to the current directory of the commands, whoever they are.
    pub fn grant_work(&self) {
        fs::set_permissions(self.work(), fs::Permissions::from_mode(0o777)).unwrap();
        self.settings(&format!("[target.local]\ngrant = [\"{}:rw\"]\n", self.work().display()));
    }

    /// Makes a directory that agents behind the wall may write to as well, with more lines of the target's settings.
    pub fn share(&self, name: &str, settings: &str) -> PathBuf {
        let dir = self.work().join(name);
        fs::create_dir(&dir).unwrap();
        // The agent is another user where root runs the tests.
        fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
        let config = self.root.path().join("home/.config/agora");
        fs::create_dir_all(&config).unwrap();
        let grant = format!("[target.local]\ngrant = [\"{}:rw\"]\n{settings}", dir.display());
        fs::write(config.join("agora.toml"), grant).unwrap();
        dir
    }

    /// Puts a real program where the commands, and what they start, find it by a name.
    #[must_use]
    pub fn program(self, name: &str, path: &Path) -> Self {
        let bin = self.root.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(path, bin.join(name)).unwrap();
        self
    }

    /// Prepares a command: an empty environment with its own homes, and no standard input.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .env("AGORA_HOME", self.agora_home())
            .env("PATH", format!("{}:/usr/bin:/bin", self.root.path().join("bin").display()))
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ran {
        run(&mut self.command(arguments))
    }

    /// Runs with text on standard input.
    pub fn run_with_input<S: AsRef<OsStr>>(&self, arguments: &[S], input: &str) -> Ran {
        let mut command = self.command(arguments);
        let mut child: Child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    }

    /// Replaces what differs from run to run, so that a test can compare the rest to the letter.
    pub fn steady(&self, text: &str) -> String {
        let root = self.root.path().to_str().unwrap();
        let text = text.replace(&format!("{root}/home"), "[HOME]").replace(root, "[ROOT]");
        let walls = ["namespaces", "landlock"].map(|level| format!("isolation: {level}"));
        let text = walls.iter().fold(text, |text, wall| text.replace(wall, "isolation: [WALL]"));
        steady_words(&text)
    }
}

/// Prepares any program: the one way for a test that looks at processes of its own.
pub fn command(program: &str) -> Command {
    Command::new(program)
}

/// Runs a prepared command to its end.
pub fn run(command: &mut Command) -> Ran {
    Ran::from(command.output().unwrap())
}

/// Replaces what differs from run to run in a document: also how long something took.
pub fn steady_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(steady_words(text)),
        Value::Array(values) => values.iter().map(steady_json).collect(),
        Value::Object(fields) => {
            let steady = |(key, value): (&String, &Value)| match (key.as_str(), value) {
                ("durationMs", Value::Number(_)) => (key.clone(), "[SPAN]".into()),
                ("hmac", _) => (key.clone(), "[HMAC]".into()),
                // What can be built, and what is visible, is this machine's.
                ("isolation", Value::Object(wall)) if wall["level"] != "none" => {
                    (key.clone(), "[WALL]".into())
                }
                _ => (key.clone(), steady_json(value)),
            };
            Value::Object(fields.iter().map(steady).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// What stands between words, beside white space.
const APART: &str = "\"'`,;()@";

/// Replaces hashes, times, ids, and how long something took.
fn steady_words(text: &str) -> String {
    let is_time = |word: &str| word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    let is_id = |word: &str| word.len() == 18 && ["d_", "t_", "q_"].iter().any(|kind| word.starts_with(kind));
    let is_shaped = |word: &str, shape: &str| {
        let fits = |(one, other): (u8, u8)| if other == b'0' { one.is_ascii_digit() } else { one == other };
        word.len() == shape.len() && word.bytes().zip(shape.bytes()).all(fits)
    };
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mut steady = String::new();
    for word in text.split_inclusive(|character: char| character.is_whitespace() || APART.contains(character))
    {
        let bare =
            word.trim_end_matches(|character: char| character.is_whitespace() || APART.contains(character));
        let replaced = if bare.starts_with("sha256:") && bare.len() == 71 {
            "sha256:[HASH]"
        } else if bare.len() >= 24 && is_time(bare) {
            "[TIME]"
        } else if is_shaped(bare, "0000-00-00") {
            "[DATE]"
        } else if is_shaped(bare, "00:00:00Z") {
            "[CLOCK]"
        } else if is_id(bare) {
            steady.push_str(&bare[..2]);
            "[ID]"
        } else if let Some(file) = bare.get(18..).filter(|rest| rest.starts_with('/') && is_id(&bare[..18])) {
            steady.push_str(&bare[..2]);
            steady.push_str("[ID]");
            file
        } else if matches!(bare, "ms" | "s")
            && let Some(number) = steady.trim_end().rsplit(' ').next()
            && !number.is_empty()
            && is_number(number)
        {
            steady.truncate(steady.trim_end().len() - number.len());
            "[SPAN]"
        } else {
            bare
        };
        steady.push_str(replaced);
        steady.push_str(&word[bare.len()..]);
    }
    steady
}

impl From<std::process::Output> for Ran {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Asserts that the command succeeded, and returns its results.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Asserts that the command succeeded with exactly one JSON document, and returns it.
    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.success()).unwrap()
    }

    /// Asserts that the command failed with a code and no results, and returns what it said.
    #[track_caller]
    pub fn failure(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "an error is no result");
        self.stderr
    }
}

/// Returns every file below a directory with its content, to see that nothing changed or that nothing leaked.
pub fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else { return files };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            let content = fs::read(&path).unwrap();
            files.push((path, content));
        }
    }
    files.sort();
    files
}
