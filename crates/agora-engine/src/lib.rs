//! The library behind the `agora` command: what people embed.
//!
//! In the order in which one would read it. What runs is defined first:
//!
//! ```text
//!  agora        the face: one value that everything is asked of
//!  tree         a directory  ─▶ a capability and its pack       (walked with suspicion)
//!  definition   a file       ─▶ a subagent, a deployment        (YAML, TOML, Markdown)
//!  secret       `KEY=env:X`  ─▶ a value in the store, or a reference
//!  prepare      all of these ─▶ a bundle that passed every check, not yet stored
//!  plan         many of them ─▶ new, changed, unchanged; all checked before the first is registered
//!  builtin      the subagents that come with agora: `claude`, `codex`
//!  explain      a reference  ─▶ what it resolves to, lays over the workspace and says
//!  health       everything   ─▶ what is no longer what was stored
//! ```
//!
//! Then it runs. A dispatch is recorded before anything is done about it, and whoever has its thread's lease carries it on:
//!
//! ```text
//!  surroundings what a user's home, `agora.toml` and variables say   auth     logins that are stored for every dispatch
//!  trust        which project's `agora.toml` may say what only a user's may
//!  dispatching  what is asked of [`Agora`] about dispatches          handle   a thread in the caller's hands
//!  status       what runs, waits and is due, at a glance
//!  inbox        questions that are open ─▶ an answer, signed, which is the next dispatch; `drive` through any number of pauses
//!  checklist    the pauses of a thread ─▶ whether each did what the user input protocol asks for, and what proves it
//!  takeover     a thread goes on in the hands of a person, at a terminal
//!  route        commands that are asked, people who are reminded, the end of patience    notice   telling people
//!  serve        the permanent carrier
//!  apply        the work of a thread ─▶ the user's tree, a branch or a commit
//!  dispatch     a request ─▶ a job: names become hashes, once, and   settings, world   all that it works with
//!               one login is chosen (login)
//!
//!  request ─▶ resolve ─▶ accepted ─▶ room? ─▶ claim ─▶ launch ─▶ follow ─▶ outcome ─▶ record ─▶ rest
//!             dispatch/    accept     queue              │         │          end
//!                                                        ▼         ▼
//!                                                     manifest   lines, life, wishes, the clock
//!                 (carry/)                            secrets
//!                                                     worker     recover: another carrier begins at whatever it finds
//! ```
//!
//! Nothing here prints or prompts. Nothing reads the environment but [`Agora::open_default`] and [`Surroundings`]: else the
//! caller hands in what it may use.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("NOTES.md"), "Prefer small commits.")?;
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use agora_engine::{Agora, BundleKind, Name};
//!
//! let agora = Agora::open(dir.path().join("home"));
//! let name: Name = "house-style".parse()?;
//! let registered = agora.register_capability(&name, dir.path(), &[]).await?;
//! let listed = agora.list(BundleKind::Capability).await?;
//! assert_eq!(listed, [(name, registered.version)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To dispatch, an agora wants a program for its workers: the `agora` command is one.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use agora_engine::{Agora, Dispatch, Settings};
//! use serde_json::json;
//!
//! let agora = Agora::open("/var/lib/agora").with_settings(Settings::with_worker("/usr/local/bin/agora"));
//! agora.recover().await?; // Takes in what ended while nobody looked.
//! let thread = agora.dispatch(Dispatch::to("planner").input(json!({"task": "split the parser"}))).await?;
//! let result = thread.wait().await?;
//! println!("{}: {}", result.state, result.output.text);
//! # Ok(())
//! # }
//! ```

mod agora;
mod apply;
mod auth;
mod builtin;
mod carry;
mod checklist;
mod definition;
mod dispatch;
mod dispatching;
mod error;
mod explain;
mod handle;
mod health;
#[cfg(feature = "docker")]
mod image;
mod inbox;
mod notice;
mod plan;
mod prepare;
mod route;
#[doc(hidden)]
pub mod sabotage;
mod secret;
mod serve;
mod settings;
mod status;
mod surroundings;
mod takeover;
mod tree;
mod trust;
mod world;

pub use agora::{Agora, EnvOptions, Found, RegisteredEnv};
pub use agora_core::answer::{Answerer, Given, Reply};
pub use agora_core::bundle::BundleKind;
pub use agora_core::job::Attendance;
pub use agora_core::login::LoginSource;
pub use agora_core::name::{Name, Namespace};
pub use agora_core::provider::ledger::{Allowance, Beyond};
pub use agora_core::route::{AgentsMay, NotEntitled, Party};
pub use agora_core::stale::{Despite, Difference};
pub use agora_core::wire::report::Usage;
pub use agora_providers::SystemClock;
pub use agora_providers::ground::{AppliedWork, ApplyError, ApplyTo, OnSight, objects_of};
pub use agora_providers::ledger::Glance;
pub use agora_providers::notify::{Message as NotifyMessage, Way as NotifyWay};
pub use agora_providers::program::MARK as ROUTE_COMMAND;
pub use apply::WorkPatch;
pub use carry::accept::{AcceptError, Accepted, Novelty, RequestKey};
pub use carry::recover::Recovered;
pub use carry::sweep::{Sweep, Swept};
pub use carry::{Carried, CarryError, CarryingAside, Engine};
pub use checklist::{Calls, Checked, CheckedPause, Checklist, Evidence, Point, Verdict};
pub use definition::{DefinitionError, read_subagent};
pub use dispatch::Dispatch;
pub use dispatch::login::UsedLogin;
pub use dispatch::result::{DispatchResult, NeedsInput, Patch, QuestionDocument, Workspace, shown_state};
pub use error::{Error, ErrorKind};
pub use explain::{ExplainedOverlay, Explanation, LaidFrom, Prompts};
pub use handle::{Events, Thread};
pub use health::Health;
#[cfg(feature = "docker")]
pub use image::{BuildError, Built as BuiltImage, ImageRequest};
pub use inbox::{
    Answered, Closing, ContinuedStory, InboxNews, InboxWatch, Passed, QuestionStory, Reaction, Refusal,
    RoutedStep, StoryAnswer, ThreadStory, Totals, thread_state,
};
pub use notice::{Ended, Notice, NoticeKind, Notifier, Quiet};
pub use plan::{Applied, Plan, PlannedEntry};
pub use route::{Heard, RouteCommands};
pub use secret::{Outside, SecretInput, SecretSource, SecretSourceError};
pub use serve::Served;
pub use settings::{ContainerTarget, Ignored, McpSettings, Settings, SettingsError, TargetSettings, Unused};
pub use status::{Status, StatusDocument, Trouble, glance, last_trouble, pass_on};
pub use surroundings::{PROJECT_DIR, Surroundings};
pub use takeover::TakenOver;
pub use tree::TreeFault;
pub use trust::{Standing, TrustedProject};
pub use world::{Entropy, Target, Task, Tasks, Vault, World};
