//! Socket by which the processes of a parallel job on one node find their recorder: a Unix stream
//! socket with an abstract name (`unix(7)`), which goes with its owner and needs no directory.
//!
//! Any process of the network namespace may take an abstract name. So both sides ask the kernel for
//! the other side's user and process, and nothing that the other side writes is trusted.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};

use crate::units::Pid;

/// Peer of a connection, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process that connected or listens; 0 if this pid namespace does not show it.
    pub pid: Pid,
    /// Effective user of that process.
    pub user: u32,
}

/// Takes the name and listens.
///
/// # Errors
///
/// `AddrInUse`: another socket has the name.
pub fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Connects to the owner of the name. The call never waits.
///
/// # Errors
///
/// `ConnectionRefused`: no process listens there. `WouldBlock`: too many wait there.
pub fn connect_to(name: &str) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Returns the other side of a connection.
///
/// # Errors
///
/// Those of `getsockopt(2)`.
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let found = getsockopt(stream, PeerCredentials)?;
    Ok(Peer { pid: Pid(found.pid()), user: found.uid() })
}

/// Accepts the next connection within this number of milliseconds.
///
/// # Errors
///
/// `TimedOut`: no process has connected; those of `accept(2)`.
pub fn accept_within(listener: &UnixListener, milliseconds: u16) -> io::Result<UnixStream> {
    let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::from(milliseconds)) {
        Ok(1..) => listener.accept().map(|(stream, _)| stream),
        Ok(_) => Err(io::ErrorKind::TimedOut.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// True if the other side has closed the connection, or its process has ended.
pub fn is_closed(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::POLLHUP)];
    let ready = poll(&mut fds, PollTimeout::ZERO).unwrap_or(0);
    ready > 0 && fds.first().is_some_and(|fd| fd.any().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_one_owner_and_peers_are_known() {
        let name = format!("iotrace-perf-test/{}", std::process::id());
        let refused = connect_to(&name).expect_err("no process listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = listen(&name).expect("the name is free");
        let taken = listen(&name).expect_err("the name is taken");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let timed_out = accept_within(&listener, 1).expect_err("no process connects");
        assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
        let (outer, inner) = (connect_to(&name), accept_within(&listener, 1000));
        let (outer, inner) = (outer.expect("connected"), inner.expect("accepted"));
        let own = Peer {
            pid: Pid(std::process::id().cast_signed()),
            user: nix::unistd::geteuid().as_raw(),
        };
        assert_eq!((peer(&outer).ok(), peer(&inner).ok()), (Some(own), Some(own)));
        assert!(!is_closed(&inner));
        drop(outer);
        assert!(is_closed(&inner));
    }
}
