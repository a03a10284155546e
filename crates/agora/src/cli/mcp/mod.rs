//! `agora mcp`: the server that an agent drives agora through, where it is entered for a client, and tokens for its door over HTTP.

mod around;
mod comments;
mod entered;
mod hints;
mod install;
mod json_text;
mod token;
mod toml_text;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

use super::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::mcp::{Desk, Entrance, Lines, Loopback, Server, Tokens, Trouble, bind};
use around::Program;

/// Let an agent drive agora: the MCP server
#[derive(Debug, Args)]
#[command(
    long_about = "Let an agent drive agora: the MCP server, on standard input and output, or with `--http` on a socket of this machine.\n\nThe agent may dispatch what is registered, wait, pass on your answers, look and cancel. It may not register, assign, deploy, or see a secret.",
    after_help = "Examples:\n  agora mcp                                  # what a client starts\n  agora mcp install --client claude          # enter it for Claude Code\n  agora mcp --http 127.0.0.1:4100",
    args_conflicts_with_subcommands = true
)]
pub(super) struct Mcp {
    #[command(subcommand)]
    command: Option<Command>,
    /// A directory that agents may be given to work on; may be given again. Without one, the git repository of the current directory
    #[arg(long, value_name = "DIR")]
    workspace: Vec<PathBuf>,
    /// Serve over HTTP on this address, for who has a token
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<Loopback>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Install(install::Install),
    Token(token::Token),
}

impl Mcp {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            Some(Command::Install(command)) => command.run(context),
            Some(Command::Token(command)) => command.run(context),
            None => serve(context, self.workspace, self.http).await.map(|()| Exit::Done),
        }
    }
}

async fn serve(context: &Context, workspaces: Vec<PathBuf>, http: Option<Loopback>) -> Result<(), Failure> {
    if let Some(missing) = workspaces.iter().find(|dir| !dir.is_dir()) {
        return Err(Failure::wrong(
            "workspace-refused",
            format!("`{}` is not a directory", missing.display()),
        ));
    }
    let program = Program::new(context.config.clone(), workspaces);
    let desk = Arc::new(Desk::new(Box::new(program)));
    match http {
        Some(address) => serve_http(context, desk, address).await,
        None => serve_stdio(context, desk).await,
    }
}

/// Serves the one client that started this process, until it closes its end.
async fn serve_stdio(context: &Context, desk: Arc<Desk>) -> Result<(), Failure> {
    let (read, write) = stdio_pipes();
    // A process's number comes back; with the moment it is this one's.
    let word = format!("{}-{}", std::process::id(), context.config.now().as_millis());
    let server = Server::alone(desk, &word);
    // A client that leaves before it said who it is has nothing to be told.
    let Ok(running) = server.serve(Entrance::new(Lines::new(read, write))).await else { return Ok(()) };
    running.waiting().await.map(drop).map_err(|error| Failure::bug(error.to_string()))
}

async fn serve_http(context: &Context, desk: Arc<Desk>, address: Loopback) -> Result<(), Failure> {
    let door = bind(address, tokens(context)?).await.map_err(failure)?;
    context.ui.note(format_args!("listening on http://{}/mcp", door.address()));
    context
        .ui
        .hint("`agora mcp token` makes a token, which every request needs: `Authorization: Bearer TOKEN`");
    door.serve(desk).await.map_err(failure)
}

/// Returns what makes and knows the tokens of this home.
fn tokens(context: &Context) -> Result<Tokens, Failure> {
    let engine = context.config.dispatching()?.engine()?;
    Tokens::new(engine.world().keys.token_key()).map_err(|error| Failure::bug(error.to_string()))
}

fn failure(trouble: Trouble) -> Failure {
    trouble.hints.into_iter().fold(Failure::outside("no-door", trouble.message), Failure::hint)
}
