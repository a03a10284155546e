//! The threads that feed a child and drain it. None of them can be held up for ever: each can be told to give up.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::drain::Sink;

/// What a sink gets at most at a time: as much as a pipe holds unless somebody asked for more.
const CHUNK: usize = 64 * 1024;

/// The streams of one child.
#[derive(Debug)]
pub(super) struct Flows {
    threads: Vec<JoinHandle<()>>,
    /// Ends when the last thread does.
    done: Receiver<()>,
    done_sender: Option<Sender<()>>,
    /// Dropping it is the sign to give up, which all threads see in the other end.
    patience: Option<PipeWriter>,
    impatience: Arc<PipeReader>,
}

/// Whether every stream was seen to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flowed {
    ToTheEnd,
    /// Somebody held a stream open who should be dead, or is not of the child's.
    GivenUp,
}

impl Flows {
    pub(super) fn new() -> io::Result<Self> {
        let (impatience, patience) = io::pipe()?;
        let (done_sender, done) = mpsc::channel();
        Ok(Self {
            threads: Vec::new(),
            done,
            done_sender: Some(done_sender),
            patience: Some(patience),
            impatience: Arc::new(impatience),
        })
    }

    /// Writes all bytes, as fast as they are read, and closes the stream.
    pub(super) fn feed(&mut self, stdin: PipeWriter, bytes: Vec<u8>) -> io::Result<()> {
        let flags = fcntl_getfl(&stdin)?;
        fcntl_setfl(&stdin, flags | OFlags::NONBLOCK)?;
        let mut stdin = stdin;
        let mut written = 0;
        // Most prompts fit into the pipe, and then there is nothing to wait for.
        if !write_on(&mut stdin, &bytes, &mut written) {
            return Ok(());
        }
        self.spawn("child-feed", move |impatience| {
            while waits_no_longer(&stdin, PollFlags::OUT, impatience)
                && write_on(&mut stdin, &bytes, &mut written)
            {}
        })
    }

    pub(super) fn drain_stdout(&mut self, stdout: PipeReader, sink: Box<dyn Sink>) -> io::Result<()> {
        self.drain("child-stdout", stdout, sink)
    }

    pub(super) fn drain_stderr(&mut self, stderr: PipeReader, sink: Box<dyn Sink>) -> io::Result<()> {
        self.drain("child-stderr", stderr, sink)
    }

    fn drain(&mut self, name: &str, mut stream: PipeReader, mut sink: Box<dyn Sink>) -> io::Result<()> {
        self.spawn(name, move |impatience| {
            let mut chunk = vec![0; CHUNK];
            while waits_no_longer(&stream, PollFlags::IN, impatience) {
                match stream.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(read) => sink.take(&chunk[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            sink.end();
        })
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce(&PipeReader) + Send + 'static) -> io::Result<()> {
        let (done, impatience) = (self.done_sender.clone(), Arc::clone(&self.impatience));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            body(&impatience);
            drop(done);
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits until all streams have ended, but not longer than this.
    pub(super) fn finish(&mut self, patience: Duration) -> Flowed {
        self.done_sender = None;
        let flowed = match self.done.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => Flowed::GivenUp,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Flowed::ToTheEnd,
        };
        self.give_up();
        flowed
    }

    fn give_up(&mut self) {
        self.patience = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Writes as much as fits, and tells whether there is more to write.
fn write_on(stdin: &mut PipeWriter, bytes: &[u8], written: &mut usize) -> bool {
    while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
        match stdin.write(rest) {
            Ok(0) => return false,
            Ok(more) => *written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    false
}

/// Waits until a stream is ready or has ended; `false` when it is time to give up.
fn waits_no_longer(stream: &impl AsFd, ready: PollFlags, impatience: &PipeReader) -> bool {
    loop {
        let mut both = [PollFd::new(stream, ready), PollFd::new(impatience, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => return both[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
