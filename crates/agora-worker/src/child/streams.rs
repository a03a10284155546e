//! A program's three streams: the worker's ends of them, and the program's on their way to it.

use std::fs::File;
use std::io::{self, IoSlice, PipeReader, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::spec::Input;
use crate::descriptors;

/// The worker's ends. There are none of what the program has from elsewhere.
#[derive(Debug, Default)]
pub(super) struct Ours {
    pub(super) stdin: Option<PipeWriter>,
    pub(super) stdout: Option<PipeReader>,
    pub(super) stderr: Option<PipeReader>,
}

/// The program's ends: its standard input, output and error.
#[derive(Debug)]
pub(super) struct Theirs([OwnedFd; 3]);

/// Makes the streams of a program that is to find this on its standard input.
pub(super) fn make(input: &Input) -> io::Result<(Ours, Theirs)> {
    if let Input::Terminal(terminal) = input {
        let end = || terminal.as_fd().try_clone_to_owned();
        return Ok((Ours::default(), Theirs([end()?, end()?, end()?])));
    }
    let (stdout, said) = io::pipe()?;
    let (stderr, complained) = io::pipe()?;
    let (stdin, read): (_, OwnedFd) = match input {
        Input::Bytes(_) => {
            let (read, stdin) = io::pipe()?;
            (Some(stdin), read.into())
        }
        Input::Closed | Input::Terminal(_) => (None, File::open("/dev/null")?.into()),
    };
    let ours = Ours { stdin, stdout: Some(stdout), stderr: Some(stderr) };
    Ok((ours, Theirs([read, said.into(), complained.into()])))
}

impl Theirs {
    /// Gives them to a program that is about to be started.
    pub(super) fn give(self, command: &mut Command) {
        let [stdin, stdout, stderr] = self.0.map(Stdio::from);
        command.stdin(stdin).stdout(stdout).stderr(stderr);
    }

    /// Sends them to a process that runs already.
    pub(super) fn send(&self, to: &UnixStream) -> io::Result<()> {
        let ends = self.0.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        attached.push(SendAncillaryMessage::ScmRights(&ends));
        // They come with a byte: without one, nothing would arrive.
        sendmsg(to, &[IoSlice::new(&[0])], &mut attached, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for them. `None`: whoever would send them is gone.
    pub(super) fn receive(from: &UnixStream) -> io::Result<Option<Self>> {
        Ok(descriptors::receive(from)?.try_into().ok().map(Self))
    }

    /// Makes them this process's own, and so those of whatever it starts.
    pub(super) fn take(self) -> io::Result<()> {
        let [stdin, stdout, stderr] = self.0;
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        Ok(dup2_stderr(stderr)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn streams_arrive_at_another_process_or_nothing_does() {
        let (here, there) = UnixStream::pair().unwrap();
        let (ours, theirs) = make(&Input::Bytes(Vec::new())).unwrap();
        theirs.send(&here).unwrap();
        drop(theirs);
        let Theirs([stdin, stdout, stderr]) = Theirs::receive(&there).unwrap().unwrap();
        drop((ours.stdin, stdout, stderr));
        let mut read = Vec::new();
        File::from(stdin).read_to_end(&mut read).unwrap();
        ours.stdout.unwrap().read_to_end(&mut read).unwrap();
        ours.stderr.unwrap().read_to_end(&mut read).unwrap();
        assert!(read.is_empty(), "every end has gone over, and is closed by now");
        drop(here);
        assert!(Theirs::receive(&there).unwrap().is_none());
    }
}
