//! How much a plan may have. A reader takes no more memory than these say, whatever a file says: one byte of a list can be a hundred in
//! memory, and a compressed one thousands.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

/// Operations in a frame at most.
pub const OPERATIONS_MAX: u32 = 512;

/// A writer begins a new frame behind so many bytes of operations.
pub const OPERATIONS_BYTES: usize = 4 << 20;

/// What is known of the threads of a plan, decoded: two million of them.
pub const INDEX_BYTES_MAX: u32 = 64 << 20;

/// Files and their names, decoded: some eight million.
pub const FILES_BYTES_MAX: u32 = 512 << 20;

/// [`OPERATIONS_BYTES`] and one operation that waits for millions of others.
pub const OPERATIONS_BYTES_MAX: u32 = 32 << 20;

/// Threads: as many as a Linux may have at once by default on a large machine, several times over.
pub const WORKERS_MAX: usize = 1 << 20;

/// Files that are there before, and files that have names: more than an ext4 of 128 GB has by default.
pub const FILES_MAX: usize = 1 << 23;

/// Parts of a file that have data, or none: as many as a terabyte has in a MiB each.
pub const PARTS_MAX: usize = 1 << 20;

/// Descriptors that are open before: as many as one process may have by default (`fs.nr_open`).
pub const GIVEN_MAX: usize = 1 << 20;

/// Calls that are done, and reasons why others are not, each with its call.
pub const CALLS_MAX: usize = 1 << 16;

/// A list of so many at most.
pub(super) fn at_most<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct AtMost<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for AtMost<T, MAX> {
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

    deserializer.deserialize_seq(AtMost::<T, MAX>(PhantomData))
}
