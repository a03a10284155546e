//! The commands: what they are called, and which file does them.

mod answer;
mod auth;
mod bundle;
mod capability;
mod completions;
mod demo;
mod deploy;
mod dispatch;
mod doctor;
mod env;
mod explain;
mod gc;
mod help;
#[cfg(feature = "docker")]
mod image;
mod inbox;
mod init;
mod later;
mod mcp;
mod protocol;
mod route;
mod run;
mod serve;
mod status;
mod subagent;
mod sync;
mod tell;
mod thread;
mod trust;
pub(crate) mod worker;

use std::ffi::OsString;

use agora_core::credential::Pattern;
use agora_engine::{BundleKind, Namespace};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{self, Form, Ui};
use later::Later;

/// What agora starts itself for: on no screen.
const INTERNAL: [&str; 4] = ["carry", "demo-engine", "tell", "worker"];

/// The first screen: at most twelve commands, by what a person wants.
const HELP: &str = "\
{about}

{usage-heading} {usage}

Run:
  demo         See an agent ask, wait at no cost, go on: in seconds, no account
  run          Run an agent on a task, in this repository
  inbox        Answer the questions that are open, one by one
  answer       Answer a question; the work goes on where it stopped
  apply        Bring a thread's work into your files
  continue     Go on with a thread that ended
  takeover     Go on with it yourself, in the agent's own interactive program
  cancel       Cancel a dispatch, or a thread that waits

Look:
  ls           List what runs and ran
  show         Show what became of a dispatch
  logs         Print what an agent printed

Set up:
  init         Set up: a login, a project's agents, settings

Also: doctor, subagent, capability, env, auth, trust, dispatch, thread,
      status, route, serve, mcp, protocol, explain, deploy, sync, image, gc,
      completions.

Options:
{options}{after-help}";

const AFTER_HELP: &str = "\
Run `agora COMMAND --help` for its options and an example.
Results go to standard output, everything else to standard error.";

/// What every command takes stands after what is its own.
const EVERYWHERE: &str = "Everywhere";
const LAST: usize = 1000;

/// Dispatch headless coding agents, and answer their questions.
#[derive(Debug, Parser)]
#[command(name = "agora", version, help_template = HELP, after_help = AFTER_HELP, disable_help_subcommand = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    /// Print exactly one JSON document, also on error
    #[arg(long, global = true, help_heading = EVERYWHERE, display_order = LAST)]
    json: bool,
    /// The namespace to look names up in [default: default]
    #[arg(long, global = true, value_name = "NAME", env = "AGORA_NAMESPACE", hide_env = true, value_parser = parse::<Namespace>)]
    #[arg(help_heading = EVERYWHERE, display_order = LAST)]
    namespace: Option<Namespace>,
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::command().try_get_matches_from(arguments).and_then(|matches| Self::from_arg_matches(&matches))
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(Later<demo::Demo>),
    #[command(hide = true)]
    DemoEngine(Later<demo::DemoEngine>),
    Run(Later<Box<run::Run>>),
    Init(Later<init::Init>),
    #[command(hide = true)]
    Auth(Later<auth::Auth>),
    #[command(hide = true)]
    Doctor(Later<doctor::Doctor>),
    #[command(subcommand, visible_alias = "dispatches", hide = true)]
    Dispatch(Later<dispatch::Dispatch>),
    Ls(Later<dispatch::list::List>),
    Show(Later<dispatch::show::Show>),
    Logs(Later<dispatch::logs::Logs>),
    Inbox(Later<inbox::Inbox>),
    Answer(Later<answer::Answer>),
    Cancel(Later<dispatch::cancel::Cancel>),
    Continue(Later<dispatch::go_on::Continue>),
    Takeover(Later<dispatch::takeover::Takeover>),
    Apply(Later<dispatch::apply::Apply>),
    #[command(subcommand, visible_alias = "threads", hide = true)]
    Thread(Later<thread::Thread>),
    #[command(subcommand, hide = true)]
    Protocol(Later<protocol::Protocol>),
    #[command(hide = true)]
    Status(Later<status::Status>),
    #[command(hide = true)]
    Mcp(Later<mcp::Mcp>),
    #[command(hide = true)]
    Gc(Later<gc::Gc>),
    #[cfg(feature = "docker")]
    #[command(subcommand, hide = true)]
    Image(Later<image::Image>),
    #[command(hide = true)]
    Carry(Later<dispatch::carry::Carry>),
    #[command(subcommand, hide = true)]
    Route(Later<route::Route>),
    #[command(hide = true)]
    Serve(Later<serve::Serve>),
    #[command(hide = true)]
    Tell(Later<tell::Tell>),
    #[command(subcommand, visible_alias = "capabilities", hide = true)]
    Capability(Later<capability::Capability>),
    #[command(subcommand, visible_alias = "subagents", hide = true)]
    Subagent(Later<subagent::Subagent>),
    #[command(subcommand, visible_alias = "envs", hide = true)]
    Env(Later<env::Env>),
    #[command(hide = true)]
    Trust(Later<trust::Trust>),
    #[command(hide = true)]
    Deploy(Later<deploy::Deploy>),
    #[command(hide = true)]
    Sync(Later<sync::Sync>),
    #[command(hide = true)]
    Explain(Later<explain::Explain>),
    #[command(hide = true)]
    Completions(Later<completions::Completions>),
    #[command(hide = true)]
    Help(Later<help::Help>),
    #[command(subcommand, hide = true)]
    Worker(Worker),
}

/// Used by agora itself
#[derive(Debug, Subcommand)]
enum Worker {
    /// Try what isolation this machine offers, and print it as JSON
    Probe,
}

/// A credential pattern that may stay: an option of everything that registers.
#[derive(Debug, clap::Args)]
struct Allowed {
    /// Register in spite of this credential pattern; may be given again
    #[arg(long = "allow-credential-pattern", value_name = "PATTERN", value_parser = parse::<Pattern>)]
    patterns: Vec<Pattern>,
}

/// What a command needs to do its work.
struct Context {
    ui: Ui,
    config: Config,
}

/// Runs the command that the arguments say, and returns how it ended.
pub(crate) fn run(arguments: Vec<OsString>) -> Exit {
    // Known before parsing, so that a wrong argument is also reported as it was asked for.
    let wants_json = arguments
        .iter()
        .skip(1)
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json");
    let ui = Ui::new(if wants_json { Form::Json } else { Form::Text });
    let done = match Arguments::read(arguments) {
        Ok(arguments) => perform(ui, arguments),
        Err(error) => usage(&error),
    };
    match done {
        Ok(exit) => exit,
        Err(failure) => ui.failure(&failure),
    }
}

fn perform(ui: Ui, arguments: Arguments) -> Result<Exit, Failure> {
    // The probe takes the process apart, and must be alone in it: before a runtime, before anything.
    if let Command::Worker(Worker::Probe) = arguments.command {
        return probe().map(|()| Exit::Done);
    }
    if let Command::Help(Later(command)) = arguments.command {
        return command.run();
    }
    // In every prompt of a shell: as cheap as can be.
    if let Command::Status(Later(command)) = &arguments.command
        && command.is_line()
    {
        return status::line(ui, arguments.namespace);
    }
    let context = Context { ui, config: Config::new(arguments.namespace)? };
    let runtime = runtime(&arguments.command).map_err(|error| {
        Failure::outside("no-runtime", format!("the machine does not let agora start: {error}"))
    })?;
    runtime.block_on(async {
        let done = match arguments.command {
            Command::Doctor(Later(command)) => return command.run(&context).await,
            Command::Demo(Later(command)) => return command.run(&context).await,
            Command::DemoEngine(Later(command)) => return command.run(&context).await,
            Command::Run(Later(command)) => return command.run(&context).await,
            Command::Dispatch(Later(command)) => return command.run(&context).await,
            Command::Ls(Later(command)) => return command.run(&context).await,
            Command::Show(Later(command)) => return command.run(&context).await,
            Command::Logs(Later(command)) => return command.run(&context).await,
            Command::Inbox(Later(command)) => return command.run(&context).await,
            Command::Answer(Later(command)) => return command.run(&context).await,
            Command::Cancel(Later(command)) => return command.run(&context).await,
            Command::Continue(Later(command)) => return command.run(&context).await,
            Command::Takeover(Later(command)) => return command.run(&context).await,
            Command::Apply(Later(command)) => return command.run(&context).await,
            Command::Thread(Later(command)) => return command.run(&context).await,
            Command::Protocol(Later(command)) => return command.run(&context).await,
            Command::Status(Later(command)) => return command.run(&context).await,
            Command::Mcp(Later(command)) => return command.run(&context).await,
            Command::Gc(Later(command)) => return command.run(&context).await,
            Command::Carry(Later(command)) => return command.run(&context).await,
            Command::Route(Later(command)) => return command.run(&context).await,
            Command::Serve(Later(command)) => return command.run(&context).await,
            Command::Auth(Later(command)) => return command.run(&context).await,
            Command::Init(Later(command)) => return command.run(&context).await,
            #[cfg(feature = "docker")]
            Command::Image(Later(command)) => command.run(&context).await,
            Command::Capability(Later(command)) => command.run(&context).await,
            Command::Subagent(Later(command)) => command.run(&context).await,
            Command::Env(Later(command)) => command.run(&context).await,
            Command::Trust(Later(command)) => command.run(&context),
            Command::Tell(Later(command)) => command.run(&context),
            Command::Deploy(Later(command)) => command.run(&context).await,
            Command::Sync(Later(command)) => command.run(&context).await,
            Command::Explain(Later(command)) => command.run(&context).await,
            Command::Completions(Later(command)) => command.run(&mut Arguments::command()),
            Command::Help(_) | Command::Worker(Worker::Probe) => Ok(()),
        };
        done.map(|()| Exit::Done)
    })
}

/// Makes the runtime: one thread, and a clock and sockets only for those who wait for something.
fn runtime(command: &Command) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    match command {
        Command::Demo(_)
        | Command::DemoEngine(_)
        | Command::Run(_)
        | Command::Dispatch(_)
        | Command::Ls(_)
        | Command::Show(_)
        | Command::Logs(_)
        | Command::Inbox(_)
        | Command::Answer(_)
        | Command::Cancel(_)
        | Command::Continue(_)
        | Command::Takeover(_)
        | Command::Apply(_)
        | Command::Thread(_)
        | Command::Protocol(_)
        | Command::Status(_)
        | Command::Gc(_)
        | Command::Carry(_)
        | Command::Doctor(_)
        | Command::Route(_)
        | Command::Serve(_) => waiting(&mut builder).build(),
        Command::Mcp(_) => builder.enable_all().build(),
        #[cfg(feature = "docker")]
        Command::Image(_) => waiting(&mut builder).build(),
        _ => builder.build(),
    }
}

/// Lets a runtime wait: for a moment, and for a daemon's answer.
fn waiting(builder: &mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder {
    #[cfg(feature = "docker")]
    builder.enable_io();
    builder.enable_time()
}

fn probe() -> Result<(), Failure> {
    let probe = agora_worker::sandbox::probe::probe_in_this_process();
    let line = serde_json::to_string(&probe).map_err(|error| Failure::bug(error.to_string()))?;
    ui::print(&(line + "\n"))
}

/// Shows help where help was asked for, and turns anything else that the parser says into a failure.
fn usage(error: &clap::Error) -> Result<Exit, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            ui::print_styled(&error.render().ansi().to_string()).map(|()| Exit::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::wrong("usage", format!("a command is missing\n\n{}", error.render()).trim_end()))
        }
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
            let tips = rest.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
            let usage = rest.lines().find_map(|line| line.strip_prefix("Usage: "));
            let failure = Failure::wrong("usage", message.replace("\n  ", " "));
            let failure = tips.fold(failure, |failure, tip| failure.hint(tip));
            if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
                let parent =
                    usage.and_then(|usage| usage.split_once(" [")).map_or("agora", |(parent, _)| parent);
                let failure = swapped(parent, word).into_iter().fold(failure, Failure::hint);
                return Err(failure.hint(format!("`{parent} --help` lists the commands")));
            }
            Err(usage.into_iter().fold(failure, |failure, usage| failure.hint(format!("usage: {usage}"))))
        }
    }
}

/// Names the command that was meant where two letters changed places: in words this short clap's own measure does not see it.
fn swapped(parent: &str, word: &str) -> Option<String> {
    let command = Arguments::command();
    let mut names =
        command.get_subcommands().map(clap::Command::get_name).filter(|name| !INTERNAL.contains(name));
    let meant = names.find(|name| parent == "agora" && strsim::osa_distance(name, word) == 1)?;
    Some(format!("a similar command exists: `{meant}`"))
}

/// Parses an argument by its type's own constructor, whose error says what is wrong.
fn parse<T: std::str::FromStr<Err: std::error::Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}

pub(crate) use dispatch::span;

/// Counts things as a person would: `1 file`, `2 files`.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Returns the plural that a person reads.
fn plural(kind: BundleKind) -> &'static str {
    match kind {
        BundleKind::Capability => "capabilities",
        BundleKind::Subagent => "subagents",
        BundleKind::Env => "envs",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_first_screen_names_every_command_and_at_most_twelve() {
        let command = Arguments::command();
        let (others, visible): (Vec<_>, Vec<_>) =
            command.get_subcommands().partition(|sub: &&clap::Command| sub.is_hide_set());
        assert!(visible.len() <= 12);
        for sub in visible {
            let line = format!("\n  {:<12} ", sub.get_name());
            assert!(HELP.contains(&line), "{} is missing", sub.get_name());
        }
        let also = HELP.split_once("\nAlso: ").and_then(|(_, rest)| rest.split_once('.')).unwrap().0;
        // What containers need is not in every build, but in the one that people install.
        let here = |name: &&str| cfg!(feature = "docker") || *name != "image";
        let also: BTreeSet<&str> = also.split(',').map(str::trim).filter(here).collect();
        let others = others.into_iter().map(clap::Command::get_name);
        let others: BTreeSet<&str> =
            others.filter(|name| !INTERNAL.contains(name) && *name != "help").collect();
        assert_eq!(also, others);
    }

    #[test]
    fn every_command_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !INTERNAL.contains(&sub.get_name())) {
                let path = format!("{path} {}", sub.get_name());
                if sub.has_subcommands() {
                    check(sub, &path);
                } else {
                    let help = sub.clone().render_long_help().to_string();
                    assert!(help.contains("Example"), "{path} has no example");
                    assert!(help.contains(&format!("  {path}")), "the example of {path} runs it");
                    let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                    let long = after.lines().find(|line| line.chars().count() > 80);
                    assert_eq!(long, None, "a narrow terminal breaks an example of {path}");
                }
            }
        }
        let mut command = Arguments::command();
        command.build();
        check(&command, "agora");
    }
}
