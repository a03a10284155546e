//! A user with a repository, and an agent that is a script.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use agora_testkit::cli::{Cli, Ran, run};
use serde_json::{Value, json};

/// How a workspace is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// By overlayfs, where this machine lets us.
    Layers,
    /// By copying: the user says so.
    Copies,
}

pub(crate) const MODES: [Mode; 2] = [Mode::Layers, Mode::Copies];

pub(crate) struct User {
    pub(crate) cli: Cli,
    home: PathBuf,
    mode: Mode,
    program: Vec<String>,
}

impl User {
    pub(crate) fn new(mode: Mode) -> Self {
        let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
        let home = cli.agora_home();
        fs::create_dir_all(&home).unwrap();
        if mode == Mode::Copies {
            let config = cli.work().parent().unwrap().join("home/.config/agora");
            fs::create_dir_all(&config).unwrap();
            fs::write(config.join("agora.toml"), "[store]\noverlay = \"never\"\n").unwrap();
        }
        let user = Self { cli, home, mode, program: Vec::new() };
        for (key, value) in
            [("user.name", "Ann"), ("user.email", "ann@example.org"), ("init.defaultBranch", "main")]
        {
            user.git(&user.cli.work(), &["config", "--global", key, value]);
        }
        user
    }

    /// Another one than root, for a machine where tests run as root.
    pub(crate) fn ordinary(mode: Mode) -> Self {
        let mut user = Self::new(mode);
        if rustix_is_root() {
            let words = ["setpriv", "--reuid=4321", "--regid=4321", "--clear-groups", "--"];
            user.program = words.map(str::to_owned).to_vec();
            // The temporary directory itself is root's alone.
            let top = user.cli.work().parent().unwrap().to_owned();
            assert!(Command::new("chown").args(["-R", "4321:4321"]).arg(&top).status().unwrap().success());
        }
        user
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    fn prepare(&self, command: &mut Command) {
        // The distribution's git comes first, which is the older one where there are two: what works with it works with both.
        let path = "/usr/bin:/bin:/usr/local/bin";
        command
            .env_clear()
            .env("HOME", self.cli.work().parent().unwrap().join("home"))
            .env("PATH", path)
            .env("AGORA_HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.cli.work());
    }

    fn command(&self, words: &[&str]) -> Command {
        let all: Vec<&str> = self.program.iter().map(String::as_str).chain(words.iter().copied()).collect();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]);
        self.prepare(&mut command);
        command
    }

    pub(crate) fn agora_command(&self, words: &[&str]) -> Command {
        self.command(&[&[env!("CARGO_BIN_EXE_agora")], words].concat())
    }

    pub(crate) fn agora(&self, words: &[&str]) -> Ran {
        run(&mut self.agora_command(words))
    }

    /// Runs git as the user would.
    #[track_caller]
    pub(crate) fn git(&self, dir: &Path, words: &[&str]) -> String {
        let mut command = self.command(&[&["git"], words].concat());
        command.current_dir(dir);
        let ran = run(&mut command);
        assert_eq!(ran.code, Some(0), "git {words:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Makes a subagent of a script.
    pub(crate) fn agent(&self, name: &str, script: &str) {
        let definition = json!({"name": name, "runtime": "command", "command": ["sh", "-c", script]});
        let file = self.cli.work().parent().unwrap().join(format!("{name}.yaml"));
        fs::write(&file, definition.to_string()).unwrap();
        self.agora(&["subagent", "register", "--name", name, "--from", file.to_str().unwrap()]).success();
    }

    /// Lets a script work on a directory, and returns the result.
    #[track_caller]
    pub(crate) fn dispatch(&self, dir: &Path, script: &str) -> Value {
        self.agent("w", script);
        let ran = self.agora(&[
            "dispatch",
            "run",
            "--subagent",
            "w",
            "--workspace",
            dir.to_str().unwrap(),
            "--json",
        ]);
        let result: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr));
        assert_eq!(result["state"], "finished", "{result:#}");
        if self.mode == Mode::Copies {
            assert_ne!(result["workspace"]["via"], "overlayfs");
        }
        result
    }

    /// Makes a repository with one commit.
    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        let dir = self.cli.work().join(name);
        self.git(&self.cli.work(), &["init", "--quiet", name]);
        self.put(&dir, "a.txt", "one\ntwo\nthree\n");
        self.put(&dir, "src/b.txt", "b\n");
        self.git(&dir, &["add", "-A"]);
        self.git(&dir, &["commit", "--quiet", "-m", "first"]);
        dir
    }

    /// Writes a file as the user would: it is theirs.
    pub(crate) fn put(&self, dir: &Path, path: &str, content: &str) {
        let path = dir.join(path);
        let words = ["sh", "-c", "mkdir -p \"$(dirname \"$0\")\" && cat > \"$0\"", path.to_str().unwrap()];
        let mut command = self.command(&words);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), content.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Everything about a repository that nobody may change: all but the refs that the work comes home to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Untouched {
    status: String,
    index: Vec<u8>,
    refs: String,
    config: Vec<u8>,
    /// With what a stat tells.
    files: Vec<(PathBuf, Vec<u8>, Looks)>,
}

/// When it was changed, what it is, and how it may be used.
type Looks = (i64, i64, i64, i64, u64, u32);

impl Untouched {
    pub(crate) fn look(user: &User, dir: &Path) -> Self {
        let git = user.git(dir, &["rev-parse", "--absolute-git-dir"]);
        let common = user.git(dir, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let refs = user.git(dir, &["for-each-ref"]);
        let stats = |path: &PathBuf| {
            let data = fs::symlink_metadata(path).unwrap();
            (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec(), data.ino(), data.mode())
        };
        // Looked at before anything reads them: git's own status may write the index.
        let status =
            run(user.command(&["git", "--no-optional-locks", "status", "--porcelain=v2"]).current_dir(dir))
                .stdout;
        let files = all(dir);
        Self {
            status,
            index: fs::read(Path::new(git.trim()).join("index")).unwrap(),
            refs: refs.lines().filter(|line| !line.contains("refs/agora/")).collect(),
            config: fs::read(Path::new(common.trim()).join("config")).unwrap(),
            files: files.into_iter().map(|(path, content)| (path.clone(), content, stats(&path))).collect(),
        }
    }
}

impl Untouched {
    /// What the files hold, whenever they were written.
    pub(crate) fn files_only(self) -> Vec<(PathBuf, Vec<u8>)> {
        self.files.into_iter().map(|(path, content, _)| (path, content)).collect()
    }
}

/// Returns the agent's own words, line by line.
pub(crate) fn said(result: &Value) -> Vec<String> {
    result["output"]["text"].as_str().unwrap().lines().map(str::to_owned).collect()
}

/// Returns what a result warns of, in one text.
pub(crate) fn warned(result: &Value) -> String {
    result["warnings"].to_string()
}

/// Returns which files the last work's patch is about, in order.
pub(crate) fn patched(user: &User) -> Vec<String> {
    let patch = user.agora(&["apply", "@", "--patch"]).success();
    let names = patch.lines().filter_map(|line| line.strip_prefix("diff --git a/")?.split(" b/").next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

pub(crate) fn git_ref(result: &Value) -> String {
    result["patch"]["gitRef"].as_str().unwrap_or_else(|| panic!("no ref: {result:#}")).to_owned()
}

/// Returns every file and link of a working tree with what it holds.
fn all(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_symlink() {
            found.push((path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()));
        } else if kind.is_file() {
            found.push((path.clone(), fs::read(&path).unwrap()));
        } else if kind.is_dir() && entry.file_name() != ".git" {
            found.extend(all(&path));
        }
    }
    found.sort();
    found
}
