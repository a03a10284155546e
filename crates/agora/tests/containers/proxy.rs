//! A door to a daemon that a test can shut: for whoever came by it the daemon is gone, with every connection, until it opens again.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

/// A door.
pub(super) struct Proxy {
    dir: TempDir,
    daemon: PathBuf,
    open: Option<Open>,
}

struct Open {
    shut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<UnixStream>>>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    pub(super) fn to(daemon: &Path) -> Self {
        let mut proxy = Self { dir: tempfile::tempdir().unwrap(), daemon: daemon.to_owned(), open: None };
        proxy.open();
        proxy
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    pub(super) fn open(&mut self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (shut, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_shut, kept, daemon) = (Arc::clone(&shut), Arc::clone(&streams), self.daemon.clone());
        let acceptor = thread::spawn(move || {
            for client in listener.incoming() {
                if is_shut.load(Ordering::SeqCst) {
                    return;
                }
                let (client, server) = (client.unwrap(), UnixStream::connect(&daemon).unwrap());
                kept.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                pass(client.try_clone().unwrap(), server.try_clone().unwrap());
                pass(server, client);
            }
        });
        self.open = Some(Open { shut, streams, acceptor });
    }

    pub(super) fn shut(&mut self) {
        let Some(Open { shut, streams, acceptor }) = self.open.take() else { return };
        shut.store(true, Ordering::SeqCst);
        // Wakes the one who accepts.
        drop(UnixStream::connect(self.socket()));
        acceptor.join().unwrap();
        std::fs::remove_file(self.socket()).unwrap();
        for stream in streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Passes on what comes, and its end.
fn pass(mut from: UnixStream, mut to: UnixStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
