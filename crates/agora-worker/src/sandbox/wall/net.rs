//! A network with nothing in it but the machine itself.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use super::{Part, Refused};

/// `RTM_NEWLINK`, `NLM_F_REQUEST | NLM_F_ACK` and `IFF_UP`; the loopback device is the first of every network.
const NEW_LINK: u16 = 16;
const REQUEST_AND_ACK: u16 = 1 | 4;
const UP: u32 = 1;
const LOOPBACK: i32 = 1;
/// `struct nlmsghdr` and `struct ifinfomsg`.
const LENGTH: u32 = 32;

/// Starts the loopback device, so that programs can speak to themselves.
pub(super) fn start() -> Result<(), Refused> {
    up().map_err(Part::Network.refused())
}

fn up() -> Result<(), Errno> {
    // Its first protocol is that of routes and devices.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    // Number, sender; family and type of the device.
    message.extend([0; 12]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0_u8; 256];
    let (read, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // The error stands behind the head, as a negative number; 0 is none.
    match answer
        .get(16..20)
        .filter(|_| read >= 20)
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_ne_bytes)
    {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw_os_error(-error)),
        None => Err(Errno::IO),
    }
}
