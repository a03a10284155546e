//! The MCP server, driven by clients that others wrote and by one that means harm.

mod clients;
mod hostile;
mod install;
mod interop;
mod orchestrator;
mod support;
