//! Limits of a plan. They bound the memory of a reader, whatever a file contains: one byte of a
//! list can take a hundred in memory, and one compressed byte thousands.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

/// Operations per frame at most.
pub const OPERATIONS_MAX: u32 = 512;

/// Bytes of operations after which a writer begins a new frame.
pub const OPERATIONS_BYTES: usize = 4 << 20;

/// Decoded bytes of the INDEX frame: enough for two million threads.
pub const INDEX_BYTES_MAX: u32 = 64 << 20;

/// Decoded bytes of the FILES and NAMES frames: enough for some eight million files.
pub const FILES_BYTES_MAX: u32 = 512 << 20;

/// Decoded bytes of an OPERATIONS frame: [`OPERATIONS_BYTES`] and one operation with millions of
/// dependencies.
pub const OPERATIONS_BYTES_MAX: u32 = 32 << 20;

/// Workers: several times as many as a large machine runs threads with Linux's default limit.
pub const WORKERS_MAX: usize = 1 << 20;

/// Initial files, and files with names: more than an ext4 of 128 GB has by default.
pub const FILES_MAX: usize = 1 << 23;

/// Data and hole parts of a file: as many as a terabyte has with one part per MiB.
pub const PARTS_MAX: usize = 1 << 20;

/// Initially open descriptors: as many as one process may have by default (`fs.nr_open`).
pub const GIVEN_MAX: usize = 1 << 20;

/// Calls that the replay makes, and reasons for skipping calls, each with its call.
pub const CALLS_MAX: usize = 1 << 16;

/// Deserializes a list of at most `MAX` elements.
pub(super) fn at_most<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct BoundedVisitor<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for BoundedVisitor<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(it) = seq.next_element()? {
                if all.len() == MAX {
                    return Err(A::Error::custom("too many"));
                }
                all.push(it);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_seq(BoundedVisitor::<T, MAX>(PhantomData))
}
