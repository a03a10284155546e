//! A worker's standard input: a pipe for its bootstrap, or a socket that a terminal comes through as well.
//!
//! A descriptor that is inherited under another number could be inherited by whatever else is started at that moment. One that is sent
//! arrives at the worker alone.

use std::io::{self, PipeWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use agora_core::provider::compute::Terminal;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// The byte that a terminal comes with. The bootstrap follows.
const TERMINAL: &[u8] = b"T";

/// Our end of a worker's standard input.
#[derive(Debug)]
pub(super) enum WorkerInput {
    Pipe(PipeWriter),
    Socket(UnixStream, Terminal),
}

impl WorkerInput {
    /// Makes the worker's end and ours.
    pub(super) fn new(terminal: Option<&Terminal>) -> io::Result<(Stdio, Self)> {
        let Some(terminal) = terminal else {
            let (theirs, ours) = io::pipe()?;
            return Ok((theirs.into(), Self::Pipe(ours)));
        };
        let (theirs, ours) = UnixStream::pair()?;
        Ok((OwnedFd::from(theirs).into(), Self::Socket(ours, terminal.clone())))
    }

    /// Tells the worker what to do, and closes.
    pub(super) fn tell(self, bootstrap: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(mut pipe) => pipe.write_all(bootstrap),
            Self::Socket(mut socket, terminal) => {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut attached = SendAncillaryBuffer::new(&mut space);
                let ends = [terminal.as_fd()];
                if !attached.push(SendAncillaryMessage::ScmRights(&ends)) {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                sendmsg(&socket, &[io::IoSlice::new(TERMINAL)], &mut attached, SendFlags::empty())?;
                socket.write_all(bootstrap)
            }
        }
    }
}
