//! Side of the reference: answers the messages of other hosts with its clock, in one thread.
//!
//! ```text
//!   accepted ──► greeting ──► waiting ──► served ──► ended
//!                 2 s at most              20 s at most, some at a time
//! ```
//!
//! A connection that does not know the secret is closed. No peer can make the thread wait: all
//! sockets are non-blocking, and each state has a limit.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::clock;
use super::clock_wire::{ClockAnswer, ClockMessage, ClockSecret, GREETING_BYTES, MESSAGE_BYTES};
use crate::units::KernelTime;

/// Time in which a peer sends the secret, ns.
const GREETING_NS: u64 = 2_000_000_000;

/// Time in which a peer is served, ns: some hundred messages take less than a second.
const SERVED_NS: u64 = 20_000_000_000;

/// Number of peers that are served at a time: more would wait for each other, which makes delays
/// longer.
const SERVED_MAX: usize = 4;

/// Number of peers that have not sent the secret; the oldest one makes room for a new one.
const GREETING_MAX: usize = 64;

/// Number of connections; more wait in the kernel.
const PEERS_MAX: usize = 512;

/// Pause between two looks at the limits, ms.
const PAUSE_MS: u16 = 50;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerState {
    /// The secret is awaited.
    Greeting,
    /// The peer waits for its turn.
    Waiting,
    /// Messages are answered.
    Served,
}

/// Connection of a host.
#[derive(Debug)]
struct ServedPeer {
    stream: TcpStream,
    state: PeerState,
    /// Begin of the state.
    since: KernelTime,
    received: [u8; GREETING_BYTES],
    received_bytes: usize,
}

/// Result of a step of a connection.
enum PeerStep {
    /// The connection goes on.
    Open,
    /// The host has ended, with this bound, ns.
    Ended(u64),
    /// The host has ended without a comparison.
    Failed,
    /// The peer broke the rules, or its connection ended.
    Closed,
}

/// Reference of a comparison of clocks.
#[derive(Debug)]
pub struct ClockService {
    listener: TcpListener,
    secret: ClockSecret,
    peers: Vec<ServedPeer>,
    served: ServedHosts,
}

/// Result of a comparison of clocks at the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedHosts {
    /// Number of processes that ended in order.
    pub ended: u64,
    /// Number of processes that ended and said that they had failed.
    pub failed: u64,
    /// Largest error bound of a host, ns.
    pub bound_ns: u64,
}

impl ClockService {
    /// Listens at the first of these addresses that this host has; port 0: at a free one.
    ///
    /// # Errors
    ///
    /// `AddrInUse`, `AddrNotAvailable`; those of `bind(2)`.
    pub fn listen(addresses: &[SocketAddr], secret: ClockSecret) -> io::Result<Self> {
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpListener::bind(address) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    let served = ServedHosts::default();
                    return Ok(Self { listener, secret, peers: Vec::new(), served });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Returns the port.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Answers until this many processes have ended, or until the deadline.
    ///
    /// # Errors
    ///
    /// Those of `poll(2)`.
    pub fn serve(mut self, expected: u64, deadline: KernelTime) -> io::Result<ServedHosts> {
        while self.served.ended + self.served.failed < expected && clock::now() < deadline {
            self.close_late();
            self.begin();
            self.wait()?;
        }
        Ok(self.served)
    }

    /// Waits for messages or connections, and handles them.
    fn wait(&mut self) -> io::Result<()> {
        let flags = |state| match state {
            PeerState::Waiting => PollFlags::empty(),
            PeerState::Greeting | PeerState::Served => PollFlags::POLLIN,
        };
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.peers.len() + 1);
        fds.extend(
            self.peers.iter().map(|peer| PollFd::new(peer.stream.as_fd(), flags(peer.state))),
        );
        let is_full = self.peers.len() >= PEERS_MAX;
        if !is_full {
            fds.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, PollTimeout::from(PAUSE_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ready = ready.into_iter();
        let mut open = Vec::with_capacity(self.peers.len());
        for mut peer in std::mem::take(&mut self.peers) {
            let step = match ready.next() {
                Some(true) => peer.advance(&self.secret),
                _ => PeerStep::Open,
            };
            match step {
                PeerStep::Open => open.push(peer),
                PeerStep::Ended(bound_ns) => {
                    self.served.ended += 1;
                    self.served.bound_ns = self.served.bound_ns.max(bound_ns);
                }
                PeerStep::Failed => self.served.failed += 1,
                PeerStep::Closed => {}
            }
        }
        self.peers = open;
        if !is_full && ready.next() == Some(true) {
            self.accept();
        }
        Ok(())
    }

    /// Accepts a connection. One that has ended meanwhile is none.
    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_err() {
            return;
        }
        let greeting = |peer: &ServedPeer| peer.state == PeerState::Greeting;
        if self.peers.iter().filter(|peer| greeting(peer)).count() >= GREETING_MAX
            && let Some(oldest) = self.peers.iter().position(greeting)
        {
            self.peers.remove(oldest);
        }
        self.peers.push(ServedPeer {
            stream,
            state: PeerState::Greeting,
            since: clock::now(),
            received: [0; GREETING_BYTES],
            received_bytes: 0,
        });
    }

    /// Closes connections that have been in their state for too long.
    fn close_late(&mut self) {
        let now = clock::now();
        self.peers.retain(|peer| {
            let passed = now.0.saturating_sub(peer.since.0);
            match peer.state {
                PeerState::Greeting => passed < GREETING_NS,
                PeerState::Waiting => true,
                PeerState::Served => passed < SERVED_NS,
            }
        });
    }

    /// Begins to serve the next peers that wait.
    fn begin(&mut self) {
        let served = |peer: &&ServedPeer| peer.state == PeerState::Served;
        let mut free = SERVED_MAX.saturating_sub(self.peers.iter().filter(served).count());
        self.peers.retain_mut(|peer| {
            if free == 0 || peer.state != PeerState::Waiting {
                return true;
            }
            free -= 1;
            (peer.state, peer.since) = (PeerState::Served, clock::now());
            peer.send(&ClockAnswer::BEGIN.encode())
        });
    }
}

impl ServedPeer {
    /// Reads what has arrived, and answers it.
    fn advance(&mut self, secret: &ClockSecret) -> PeerStep {
        let wanted = match self.state {
            PeerState::Greeting => GREETING_BYTES,
            PeerState::Served => MESSAGE_BYTES,
            // The kernel reports an error or the end of the connection.
            PeerState::Waiting => return PeerStep::Closed,
        };
        let Some(free) = self.received.get_mut(self.received_bytes..wanted) else {
            return PeerStep::Closed;
        };
        match self.stream.read(free) {
            Ok(read @ 1..) => self.received_bytes += read,
            Err(error) if is_temporary(&error) => return PeerStep::Open,
            Ok(0) | Err(_) => return PeerStep::Closed,
        }
        let received = clock::now();
        if self.received_bytes < wanted {
            return PeerStep::Open;
        }
        self.received_bytes = 0;
        if self.state == PeerState::Greeting {
            if self.received != secret.host_greeting() {
                return PeerStep::Closed;
            }
            (self.state, self.since) = (PeerState::Waiting, received);
            return self.sent(&secret.reference_greeting());
        }
        let mut message = [0; MESSAGE_BYTES];
        message.iter_mut().zip(self.received).for_each(|(byte, from)| *byte = from);
        match ClockMessage::decode(message) {
            ClockMessage::End(bound_ns) => PeerStep::Ended(bound_ns),
            ClockMessage::Failed => PeerStep::Failed,
            ClockMessage::Ask(number) => {
                let (received_ns, answered_ns) = (received.0, clock::now().0);
                let answer = ClockAnswer { number, received_ns, answered_ns };
                self.sent(&answer.encode())
            }
        }
    }

    fn sent(&mut self, bytes: &[u8]) -> PeerStep {
        if self.send(bytes) { PeerStep::Open } else { PeerStep::Closed }
    }

    /// Sends some bytes; false: the peer does not take them.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write(bytes).is_ok_and(|sent| sent == bytes.len())
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
