//! Descriptors that another process sends.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Waits for one byte and takes the descriptors that come with it, three at most. There are none where whoever would send them is gone.
pub(crate) fn receive(from: impl AsFd) -> Result<Vec<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    while let Err(error) = recvmsg(&from, &mut into, &mut attached, RecvFlags::CMSG_CLOEXEC) {
        if error != Errno::INTR {
            return Err(error);
        }
    }
    let ends = attached.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(ends) => Some(ends),
        _ => None,
    });
    Ok(ends.flatten().collect())
}
