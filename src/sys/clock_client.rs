//! Side of a host whose clock is compared with that of the reference.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::clock_wire::{ANSWER_BYTES, ClockAnswer, ClockMessage, ClockSecret, GREETING_BYTES};
use super::{clock, random, thread};
use crate::capture::clock_exchange::{Exchange, KEPT};
use crate::units::KernelTime;

/// Time for a connection, ns: in a cluster it takes less than a millisecond.
const CONNECT_NS: u64 = 2_000_000_000;

/// Time for the greeting of the reference, ns: many hosts may begin at once.
const GREETING_NS: u64 = 10_000_000_000;

/// Time for an answer, ns.
const ANSWER_NS: u64 = 2_000_000_000;

/// Time for all messages, ns: a slow network has fewer of them.
const MESSAGES_NS: u64 = 5_000_000_000;

/// Number of messages. The shortest delay of some hundred is that of a quiet moment.
pub const MESSAGES: u64 = 256;

/// Connection to the reference.
#[derive(Debug)]
pub struct ClockConnection {
    stream: TcpStream,
    /// End of the comparison.
    deadline: KernelTime,
}

impl ClockConnection {
    /// Connects, and waits until it is this host's turn, at most until the deadline.
    ///
    /// # Errors
    ///
    /// `InvalidData`: the other side is not the reference; `TimedOut`; those of `connect(2)`.
    pub fn open(
        address: SocketAddr,
        secret: &ClockSecret,
        deadline: KernelTime,
    ) -> io::Result<Self> {
        let mut connection = Self::greet(address, secret, deadline)?;
        let mut begin = [0; ANSWER_BYTES];
        connection.receive(&mut begin, deadline)?;
        match ClockAnswer::decode(begin) {
            ClockAnswer::BEGIN => Ok(connection),
            _ => Err(no_answer()),
        }
    }

    /// True if the reference with this secret answers at an address before the deadline.
    pub fn is_answered(address: SocketAddr, secret: &ClockSecret, deadline: KernelTime) -> bool {
        Self::greet(address, secret, deadline).is_ok()
    }

    /// Connects, and exchanges the secret.
    fn greet(address: SocketAddr, secret: &ClockSecret, deadline: KernelTime) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, left(deadline, CONNECT_NS)?)?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, deadline };
        connection.send(&secret.host_greeting())?;
        let mut greeting = [0; GREETING_BYTES];
        let soon = KernelTime(clock::now().0.saturating_add(GREETING_NS).min(deadline.0));
        connection.receive(&mut greeting, soon)?;
        if greeting != secret.reference_greeting() {
            let text = "another program answers at its address";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(connection)
    }

    /// Asks for the reference's clock again and again. A connection that breaks ends the exchanges;
    /// it is an error if there are too few.
    ///
    /// # Errors
    ///
    /// `InvalidData`: an answer is none; `TimedOut`; those of `recv(2)`.
    pub fn exchanges(&mut self) -> io::Result<Vec<Exchange>> {
        let last = clock::now().0.saturating_add(MESSAGES_NS).min(self.deadline.0);
        let mut exchanges = Vec::new();
        for number in 0..MESSAGES {
            match self.exchange(number) {
                Ok(exchange) => exchanges.push(exchange),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) if exchanges.len() >= KEPT => break,
                Err(error) => return Err(error),
            }
            if clock::now().0 > last {
                break;
            }
            pause()?;
        }
        Ok(exchanges)
    }

    /// Asks for the reference's clock.
    fn exchange(&mut self, number: u64) -> io::Result<Exchange> {
        let sent_ns = clock::now().0;
        self.send(&ClockMessage::Ask(number).encode())?;
        let mut bytes = [0; ANSWER_BYTES];
        let last = sent_ns.saturating_add(ANSWER_NS).min(self.deadline.0);
        self.receive(&mut bytes, KernelTime(last))?;
        let returned_ns = clock::now().0;
        let answer = ClockAnswer::decode(bytes);
        let ClockAnswer { received_ns, answered_ns, .. } = answer;
        let exchange = Exchange { sent_ns, received_ns, answered_ns, returned_ns };
        match answer.number == number && exchange.reading().is_some() {
            true => Ok(exchange),
            false => Err(no_answer()),
        }
    }

    /// Ends the comparison: this host's clock is known with this bound, ns.
    ///
    /// # Errors
    ///
    /// Those of `send(2)`.
    pub fn end(mut self, bound_ns: u64) -> io::Result<()> {
        self.send(&ClockMessage::End(bound_ns).encode())
    }

    /// Ends the comparison: this host's clock is not known. The reference need not wait for it.
    pub fn fail(mut self) {
        // Without the message it waits until its deadline.
        let _ = self.send(&ClockMessage::Failed.encode());
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(Duration::from_nanos(ANSWER_NS)))?;
        self.stream.write_all(bytes)
    }

    /// Receives this many bytes before the deadline.
    fn receive(&mut self, bytes: &mut [u8], deadline: KernelTime) -> io::Result<()> {
        let mut filled = 0;
        while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
            self.stream.set_read_timeout(Some(left(deadline, u64::MAX)?))?;
            match self.stream.read(free) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it sent an answer that is none")
}

/// Returns the time until the deadline, at most this much.
fn left(deadline: KernelTime, at_most_ns: u64) -> io::Result<Duration> {
    match deadline.0.saturating_sub(clock::now().0).min(at_most_ns) {
        0 => Err(io::ErrorKind::TimedOut.into()),
        ns => Ok(Duration::from_nanos(ns.max(1_000_000))),
    }
}

/// Waits for up to half a millisecond, so that no message is in step with what else happens at
/// fixed intervals.
fn pause() -> io::Result<()> {
    let [byte, ..] = random::bytes()?;
    thread::pause(Duration::from_micros(2 * u64::from(byte)));
    Ok(())
}
