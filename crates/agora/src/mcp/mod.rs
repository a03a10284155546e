//! The MCP server: an agent drives what people registered, and a pause is the protocol's own.
//!
//! ```text
//!  around      what the program around gives: agora, a carrier, a person's name, words for a failure
//!  server      the protocol's requests ─▶ what follows            tools      the nine tools, as models read them
//!  client      who calls, and what they can do                    arguments  what a tool is given, checked
//!  dispatching, waiting, answering, looking: one file for what a tool does
//!  reply, asked, telling  what goes back, by type and in words     bounds     as much of it as a model should read
//!  standing    where a thread stands                               heard, progress  what a client was told, and how far a call is
//!  form, shown a question ─▶ a form, and what was filled in ─▶ an answer       secrets   what goes through neither
//!  state       the sealed state of a call that asks                tasks      a thread as a task
//!  limits      how much one client may start                       workspaces what an agent may be given to work on
//!  reach       which threads a client may see and touch            handing_on what an agent's dispatches get instead of its token
//!  resources, listing, listening  the rest of what does not fit, which of it there is, and who hears of it
//!  lines, entrance  messages on standard input, and a client's first ones   http, lobby, token, guests   the same over a socket, for who has a token
//! ```
//!
//! The modules that others see are for `examples/mcp_fixtures`, which stands in for the server before a conformance suite.
//!
//! Whatever says what a worker is, can do or has access to is not here: it is for people (docs/mcp.md). Nothing here prints. What
//! goes to standard output is protocol, and only the transport writes there.

mod answering;
mod arguments;
mod around;
mod asked;
pub(crate) mod asking;
mod bounds;
pub(crate) mod client;
pub(crate) mod desk;
mod dispatching;
mod entrance;
pub(crate) mod form;
mod guests;
mod handing_on;
mod heard;
mod http;
mod limits;
mod lines;
mod listening;
mod listing;
mod lobby;
mod looking;
mod progress;
mod reach;
mod reply;
pub(crate) mod resources;
mod secrets;
mod server;
mod shown;
mod standing;
mod state;
mod tasks;
mod telling;
mod token;
mod tools;
mod waiting;
mod workspaces;

pub(crate) use around::{Around, Trouble};
pub(crate) use desk::Desk;
pub(crate) use entrance::Entrance;
pub(crate) use http::{Loopback, bind};
pub(crate) use lines::Lines;
pub(crate) use server::Server;
pub(crate) use token::Tokens;
