//! Workers in containers, with real daemons and the real worker. Their names say which daemon, so that they run one by one.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod claude;
mod command;
mod disk;
mod docker;
mod hostile;
mod place;
mod podman;
mod proxy;
mod repository;
mod rootless;
mod scenes;
