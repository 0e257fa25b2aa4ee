//! Messages by which the clocks of hosts are compared, over TCP.
//!
//! ```text
//!   host                                    reference
//!   GREETING, secret ─────────────────────►              40 bytes
//!                    ◄───────────── GREETING, other half of the secret
//!                    ◄───────────── BEGIN, when it is this host's turn
//!   number, 0        ─────────────────────►              16 bytes, some hundred times
//!                    ◄───────────── number, t2, t3       24 bytes
//!   END, bound       ─────────────────────►              or FAILED, 0
//! ```
//!
//! Both halves of the secret are in a file that only the user of the job can read: other users of
//! the hosts cannot take part. A program on the network path can: it sees the secret, and nothing
//! is signed. Numbers are little-endian.

use std::io;

use serde::{Deserialize, Serialize};

use super::random;

/// First bytes of both sides.
const GREETING: [u8; 8] = *b"IOTRCLK1";

/// Bytes of a half of the secret.
const HALF_BYTES: usize = 32;

/// Bytes with which each side begins.
pub const GREETING_BYTES: usize = GREETING.len() + HALF_BYTES;

/// Bytes of a message to the reference.
pub const MESSAGE_BYTES: usize = 16;

/// Bytes of an answer of the reference.
pub const ANSWER_BYTES: usize = 24;

/// Number of the first answer and of the last message.
const END: u64 = u64::MAX;

/// Number of the last message of a host whose clock was not compared.
const FAILED: u64 = u64::MAX - 1;

/// Secret of a comparison, which both sides prove to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSecret {
    /// Part that the hosts send.
    host: [u8; HALF_BYTES],
    /// Part that the reference sends.
    reference: [u8; HALF_BYTES],
}

impl ClockSecret {
    /// Returns a new secret.
    ///
    /// # Errors
    ///
    /// Errors of `/dev/urandom`.
    pub fn new() -> io::Result<Self> {
        Ok(Self { host: random::bytes()?, reference: random::bytes()? })
    }

    /// Returns the bytes with which a host begins.
    pub fn host_greeting(&self) -> [u8; GREETING_BYTES] {
        greeting(&self.host)
    }

    /// Returns the bytes with which the reference begins.
    pub fn reference_greeting(&self) -> [u8; GREETING_BYTES] {
        greeting(&self.reference)
    }
}

fn greeting(half: &[u8; HALF_BYTES]) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    let all = GREETING.iter().chain(half);
    bytes.iter_mut().zip(all).for_each(|(byte, part)| *byte = *part);
    bytes
}

/// Message of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockMessage {
    /// Question for the clock, with its number.
    Ask(u64),
    /// The host has ended; its clock is known with this bound, ns.
    End(u64),
    /// The host has ended, and its clock is not known.
    Failed,
}

impl ClockMessage {
    /// Returns the bytes of the message.
    pub fn encode(self) -> [u8; MESSAGE_BYTES] {
        let words = match self {
            Self::Ask(number) => [number, 0],
            Self::End(bound_ns) => [END, bound_ns],
            Self::Failed => [FAILED, 0],
        };
        joined(words)
    }

    /// Returns the message of these bytes.
    pub fn decode(bytes: [u8; MESSAGE_BYTES]) -> Self {
        match split::<2, MESSAGE_BYTES>(bytes) {
            [END, bound_ns] => Self::End(bound_ns),
            [FAILED, _] => Self::Failed,
            [number, _] => Self::Ask(number),
        }
    }
}

/// Answer of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAnswer {
    /// Number of the question.
    pub number: u64,
    /// Clock of the reference when it had the question, ns.
    pub received_ns: u64,
    /// Clock of the reference before it sent the answer, ns.
    pub answered_ns: u64,
}

impl ClockAnswer {
    /// Message that it is the host's turn.
    pub const BEGIN: Self = Self { number: END, received_ns: 0, answered_ns: 0 };

    /// Returns the bytes of the answer.
    pub fn encode(self) -> [u8; ANSWER_BYTES] {
        joined([self.number, self.received_ns, self.answered_ns])
    }

    /// Returns the answer of these bytes.
    pub fn decode(bytes: [u8; ANSWER_BYTES]) -> Self {
        let [number, received_ns, answered_ns] = split::<3, ANSWER_BYTES>(bytes);
        Self { number, received_ns, answered_ns }
    }
}

fn joined<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let all = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.iter_mut().zip(all).for_each(|(byte, part)| *byte = part);
    bytes
}

fn split<const WORDS: usize, const BYTES: usize>(bytes: [u8; BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, part) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = part.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_their_bytes() {
        let ends = [ClockMessage::End(9_001), ClockMessage::Failed];
        for message in [ClockMessage::Ask(0), ClockMessage::Ask(258)].into_iter().chain(ends) {
            assert_eq!(ClockMessage::decode(message.encode()), message);
        }
        let answer = ClockAnswer { number: 3, received_ns: u64::MAX, answered_ns: 1 << 40 };
        assert_eq!(ClockAnswer::decode(answer.encode()), answer);
        assert_eq!(ClockMessage::Ask(258).encode()[..3], [2, 1, 0]);
    }

    #[test]
    fn secrets_differ_and_so_do_their_halves() {
        let [one, other] =
            [ClockSecret::new(), ClockSecret::new()].map(|made| made.expect("random"));
        assert_ne!(one, other);
        assert_ne!(one.host_greeting(), one.reference_greeting());
        assert!(one.host_greeting().starts_with(b"IOTRCLK1"));
    }
}
