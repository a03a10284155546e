//! The MCP server, driven by clients that others wrote and by one that means harm.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]
#![expect(clippy::print_stderr, reason = "a run tells what a suite counted")]

mod agents;
mod clients;
mod doors;
mod expired;
mod hostile;
mod http;
mod install;
mod interop;
mod limits;
mod listed;
mod orchestrator;
mod refused;
mod support;
mod tasks;
mod told;
mod web;
