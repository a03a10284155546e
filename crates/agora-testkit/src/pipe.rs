//! A named pipe that shows whether what has it open is alive: it ends when the last one is gone, whoever that is.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use tempfile::TempDir;

/// `O_NONBLOCK` on every Linux that Rust knows but MIPS and SPARC.
const NONBLOCK: i32 = 0o4000;

/// A pipe, of which a test has the reading end.
#[derive(Debug)]
pub struct LifePipe {
    dir: TempDir,
    reader: Option<File>,
}

impl LifePipe {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap();
        assert!(made.success());
        Self { dir, reader: None }
    }

    /// Returns its name, for a script to open.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("pipe")
    }

    /// Waits until somebody has opened it and written a line.
    pub fn ready(&mut self) {
        let mut reader = open(&self.path(), 0);
        let mut byte = [0];
        while reader.read(&mut byte).unwrap() == 1 && byte != *b"\n" {}
        assert_eq!(byte, *b"\n", "it ended before it was ready");
        self.reader = Some(reader);
    }

    /// Tells whether nobody has it open any more.
    pub fn is_over(&mut self) -> bool {
        self.reader.take().expect("somebody was ready");
        // What is not waited for: a pipe that has a writer and nothing in it says so at once.
        let mut reader = open(&self.path(), NONBLOCK);
        match reader.read(&mut [0; 64]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until somebody is ready, off the event loop.
    pub async fn ready_async(mut self) -> Self {
        let (sender, pipe) = tokio::sync::oneshot::channel();
        thread::spawn(move || {
            self.ready();
            let _ = sender.send(self);
        });
        pipe.await.unwrap()
    }
}

impl Default for LifePipe {
    fn default() -> Self {
        Self::new()
    }
}

fn open(path: &Path, flags: i32) -> File {
    OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
}
