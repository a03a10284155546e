//! `agora mcp install`: enters the server for a client, in the file where that client keeps such things.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::entered::Entered;
use super::json_text::{self, Dialect};
use super::toml_text;
use crate::cli::Context;
use crate::config::variable_os;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::path_text;

/// What teaches an orchestrator to dispatch, wait, and route questions. The plugin has the same file.
const SKILL: &str = include_str!("../../../../../plugins/agora/skills/agora/SKILL.md");

/// Enter the server for a client
#[derive(Debug, Args)]
#[command(
    long_about = "Enter the server for a client: shows what is added to which file, and writes it. What is there already stays as it is, also a skill that you changed; a file that cannot be changed safely is left alone, and what to add is shown. Comments stay where the client allows them.\n\nTo undo it, take the entry `agora` out of that file, and `.agents/skills/agora` away: nothing else was touched.\n\nFor clients that read `.agents/skills`, the skill that teaches an agent to use it is put there, too.",
    after_help = "Examples:\n  agora mcp install --client claude\n  agora mcp install --client codex --dry-run"
)]
pub(super) struct Install {
    /// For whom
    #[arg(long, value_enum)]
    client: Client,
    /// Only show it
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Client {
    /// Claude Code: `.mcp.json` of the project
    Claude,
    /// Codex: `config.toml` in `$CODEX_HOME`, else in `~/.codex`
    Codex,
    /// Gemini CLI: `~/.gemini/settings.json`
    Gemini,
    /// OpenCode: `opencode.json` of the project, or `opencode.jsonc` where it has that
    Opencode,
    /// Visual Studio Code: `.vscode/mcp.json` of the project
    Vscode,
}

/// A file, and what is to become of it.
struct Change {
    path: PathBuf,
    becomes: Becomes,
    /// What is added, for who reads.
    added: String,
}

enum Becomes {
    /// It has it already.
    Same,
    /// A person changed it, and it is theirs.
    Theirs,
    Text(String),
}

impl Install {
    pub(super) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut changes = vec![self.client.change(context)?];
        if self.client != Client::Claude {
            changes.push(skill(context)?);
        }
        for change in &changes {
            let (file, added) = (change.path.display(), &change.added);
            match (&change.becomes, self.dry_run) {
                (Becomes::Same, _) => context.ui.note(format_args!("`{file}` has it already")),
                (Becomes::Theirs, _) => context.ui.note(format_args!(
                    "`{file}` is another than this agora's, and stays; take it away to get this one"
                )),
                (Becomes::Text(_), true) => context.ui.note(format_args!("would add to `{file}`:\n{added}")),
                (Becomes::Text(text), false) => {
                    write(&change.path, text)?;
                    context.ui.note(format_args!("added to `{file}`:\n{added}"));
                }
            }
        }
        if !is_on_path("agora") {
            context
                .ui
                .warn("`agora` is not on the path: a client that starts it by its name does not find it");
        }
        let is_written = |change: &Change| matches!(change.becomes, Becomes::Text(_)) && !self.dry_run;
        let written =
            |change: &Change| json!({"file": path_text(&change.path), "changed": is_written(change)});
        let files: Vec<Value> = changes.iter().map(written).collect();
        let paths =
            || changes.iter().map(|change| format!("{}\n", change.path.display())).collect::<String>();
        context.ui.result(|| &files, paths)?;
        context.ui.hint("start the client anew; its agent then has the tools `agora_…`");
        if changes.iter().any(is_written) {
            context.ui.hint("to undo it, take out of these files what was added: nothing else was touched");
        }
        Ok(Exit::Done)
    }
}

impl Client {
    fn change(self, context: &Context) -> Result<Change, Failure> {
        let (path, keys, entry) = match self {
            Self::Claude => (project(context).join(".mcp.json"), ["mcpServers", "agora"], plain()),
            Self::Gemini => (home()?.join(".gemini/settings.json"), ["mcpServers", "agora"], plain()),
            Self::Vscode => {
                let entry = json!({"type": "stdio", "command": "agora", "args": ["mcp"]});
                (project(context).join(".vscode/mcp.json"), ["servers", "agora"], entry)
            }
            Self::Opencode => {
                let entry = json!({"type": "local", "command": ["agora", "mcp"], "enabled": true});
                (opencode(context), ["mcp", "agora"], entry)
            }
            Self::Codex => return codex(),
        };
        let dialect = if self == Self::Claude { Dialect::Plain } else { Dialect::Commented };
        let entered = json_text::enter(&read(&path)?, dialect, keys, &entry);
        change(path, entered, format!("\"{}\": {{ \"{}\": {entry} }}", keys[0], keys[1]), "JSON")
    }
}

/// Says what is to become of a file, or why it is left alone.
fn change(path: PathBuf, entered: Entered, added: String, form: &str) -> Result<Change, Failure> {
    let file = path.display();
    match entered {
        Entered::Already => Ok(Change { path, becomes: Becomes::Same, added }),
        Entered::Text(text) => Ok(Change { path, becomes: Becomes::Text(text), added }),
        Entered::Another => {
            let words = format!("`{file}` has another `agora` already; it was left alone");
            Err(Failure::wrong("entry-taken", words).hint(format!("put this in its place by hand: {added}")))
        }
        Entered::Unfit => {
            let words = format!("`{file}` is not plain {form} that can be added to; it was left alone");
            Err(Failure::wrong("file-unreadable", words).hint(format!("add this by hand: {added}")))
        }
    }
}

fn plain() -> Value {
    json!({"command": "agora", "args": ["mcp"]})
}

/// Returns OpenCode's file. It reads both, and who has one does not want a second.
fn opencode(context: &Context) -> PathBuf {
    let (plain, commented) =
        (project(context).join("opencode.json"), project(context).join("opencode.jsonc"));
    if commented.is_file() && !plain.exists() { commented } else { plain }
}

fn codex() -> Result<Change, Failure> {
    const ENTRY: &str = "command = \"agora\"\nargs = [\"mcp\"]\n";
    let dir = variable_os("CODEX_HOME").map(PathBuf::from);
    let path = dir.map_or_else(|| home().map(|home| home.join(".codex")), Ok)?.join("config.toml");
    let entered = toml_text::enter(&read(&path)?, ["mcp_servers", "agora"], ENTRY);
    change(path, entered, format!("[mcp_servers.agora]\n{ENTRY}"), "TOML")
}

fn skill(context: &Context) -> Result<Change, Failure> {
    let path = project(context).join(".agents/skills/agora/SKILL.md");
    let becomes = match read(&path)?.as_str() {
        "" => Becomes::Text(SKILL.to_owned()),
        SKILL => Becomes::Same,
        _ => Becomes::Theirs,
    };
    let added = "  the skill `agora`: how to dispatch, wait, and ask the user".to_owned();
    Ok(Change { path, becomes, added })
}

/// Tells whether a client would find a program by its name.
fn is_on_path(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let can_run = |file: PathBuf| {
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let path = variable_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| can_run(dir.join(program)))
}

/// Returns where a project's files are: the repository's root, else the current directory.
fn project(context: &Context) -> PathBuf {
    let here = || std::env::current_dir().unwrap_or_default();
    context.config.repository().unwrap_or_else(here)
}

fn home() -> Result<PathBuf, Failure> {
    variable_os("HOME").map(PathBuf::from).ok_or_else(|| Failure::outside("no-home", "`HOME` is not set"))
}

/// Reads a file that may not be there. A link to one that is not there is somebody's, and what they mean by it is not known.
fn read(path: &Path) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(_) if path.is_symlink() && !path.exists() => {
            let words =
                format!("`{}` is a link to a file that is not there; it was left alone", path.display());
            Err(Failure::wrong("file-unreadable", words).hint("make that file, or take the link away"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => {
            Err(Failure::wrong("file-unreadable", format!("`{}` cannot be read", path.display()))
                .because(error))
        }
    }
}

/// Replaces a file as a whole, so that whoever reads it meanwhile reads the one or the other.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::outside("file-unwritable", format!("`{}` cannot be written", path.display())).because(error)
    };
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(dir).map_err(failed)?;
    // A link stays one: what it means is what is written.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(dir)).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    let mode = fs::metadata(&path).map(|found| found.permissions());
    if let Ok(mode) = mode {
        file.as_file().set_permissions(mode).map_err(failed)?;
    } else {
        use std::os::unix::fs::PermissionsExt as _;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644)).map_err(failed)?;
    }
    file.persist(&path).map(drop).map_err(|error| failed(error.error))
}
