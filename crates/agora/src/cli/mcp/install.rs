//! `agora mcp install`: enters the server for a client, in the file where that client keeps such things.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::json_text::{self, Entered};
use crate::cli::Context;
use crate::config::variable_os;
use crate::exit::Exit;
use crate::failure::Failure;

/// What teaches an orchestrator to dispatch, wait, and route questions. The plugin has the same file.
const SKILL: &str = include_str!("../../../../../plugins/agora/skills/agora/SKILL.md");

/// Enter the server for a client
#[derive(Debug, Args)]
#[command(
    long_about = "Enter the server for a client: shows what is added to which file, and writes it. What is there already stays as it is; a file that cannot be changed safely is left alone, and what to add is shown.\n\nFor clients that read `.agents/skills`, the skill that teaches an agent to use it is put there, too.",
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
    /// Codex: `~/.codex/config.toml`
    Codex,
    /// Gemini CLI: `~/.gemini/settings.json`
    Gemini,
    /// OpenCode: `opencode.json` of the project
    Opencode,
    /// Visual Studio Code: `.vscode/mcp.json` of the project
    Vscode,
}

/// A file as it is to be.
struct Change {
    path: PathBuf,
    /// `None`: it is as it is to be already.
    text: Option<String>,
    /// What is added, for who reads.
    added: String,
}

impl Install {
    pub(super) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut changes = vec![self.client.change(context)?];
        if self.client != Client::Claude {
            changes.push(skill(context)?);
        }
        for change in &changes {
            match (&change.text, self.dry_run) {
                (None, _) => context.ui.note(format_args!("`{}` has it already", change.path.display())),
                (Some(_), true) => {
                    context.ui.note(format_args!(
                        "would add to `{}`:\n{}",
                        change.path.display(),
                        change.added
                    ));
                }
                (Some(text), false) => {
                    write(&change.path, text)?;
                    context.ui.note(format_args!("added to `{}`:\n{}", change.path.display(), change.added));
                }
            }
        }
        let written =
            |change: &Change| json!({"file": change.path, "changed": change.text.is_some() && !self.dry_run});
        let files: Vec<Value> = changes.iter().map(written).collect();
        let paths =
            || changes.iter().map(|change| format!("{}\n", change.path.display())).collect::<String>();
        context.ui.result(|| &files, paths)?;
        context.ui.hint("start the client anew; its agent then has the tools `agora_…`");
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
                (project(context).join("opencode.json"), ["mcp", "agora"], entry)
            }
            Self::Codex => return codex(home()?.join(".codex/config.toml")),
        };
        let before = read(&path)?;
        let added = format!("\"{}\": {{ \"{}\": {entry} }}", keys[0], keys[1]);
        match json_text::enter(&before, keys, &entry) {
            Some(Entered::Already) => Ok(Change { path, text: None, added }),
            Some(Entered::Text(text)) => Ok(Change { path, text: Some(text), added }),
            None => Err(Failure::wrong(
                "file-unreadable",
                format!("`{}` is not plain JSON; it was left alone", path.display()),
            )
            .hint(format!("add this by hand: {added}"))),
        }
    }
}

fn plain() -> Value {
    json!({"command": "agora", "args": ["mcp"]})
}

/// TOML is added to at its end: a table may stand anywhere, and what a person wrote stays to the letter.
fn codex(path: PathBuf) -> Result<Change, Failure> {
    const TABLE: &str = "[mcp_servers.agora]";
    let before = read(&path)?;
    let added = format!("{TABLE}\ncommand = \"agora\"\nargs = [\"mcp\"]\n");
    if before.lines().any(|line| line.trim() == TABLE) {
        return Ok(Change { path, text: None, added });
    }
    let apart = if before.is_empty() || before.ends_with("\n\n") {
        ""
    } else if before.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    Ok(Change { path, text: Some(format!("{before}{apart}{added}")), added })
}

fn skill(context: &Context) -> Result<Change, Failure> {
    let path = project(context).join(".agents/skills/agora/SKILL.md");
    let text = Some(SKILL.to_owned()).filter(|skill| read(&path).ok().as_ref() != Some(skill));
    Ok(Change {
        path,
        text,
        added: "  the skill `agora`: how to dispatch, wait, and ask the user".to_owned(),
    })
}

/// Returns where a project's files are: the repository's root, else the current directory.
fn project(context: &Context) -> PathBuf {
    let here = || std::env::current_dir().unwrap_or_default();
    context.config.repository().unwrap_or_else(here)
}

fn home() -> Result<PathBuf, Failure> {
    variable_os("HOME").map(PathBuf::from).ok_or_else(|| Failure::outside("no-home", "`HOME` is not set"))
}

fn read(path: &Path) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
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
