//! Plans of replays with complete frames: only their payloads are hostile.
//!
//! ```text
//!   bytes ─► lengths of INDEX, FILES, NAMES (2 each), their payloads
//!            ─► the rest are operations, one frame for all workers
//! ```

use std::fs::File;
use std::io::{Seek, Write};

use iotrace_perf::replay::plan::plan_file::{
    END_MAGIC, FILE_HEADER_BYTES, FILE_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, VERSION,
};

use crate::integer;

/// Kinds of frames, in the order in which they are written: operations, files, names, index.
const KINDS: [u32; 4] = [1, 2, 4, 3];

/// Splits the bytes into the payloads of the frames, in that order.
fn payloads(data: &[u8]) -> [&[u8]; 4] {
    let (mut data, mut lengths) = (data, [0; 3]);
    for length in &mut lengths {
        (*length, data) = integer::<2>(data);
    }
    let parts = lengths.map(|length| {
        let (part, rest) = data.split_at(data.len().min(usize::try_from(length).expect("2 bytes")));
        data = rest;
        part
    });
    let [index, files, names] = parts;
    [data, files, names, index]
}

/// Bytes with these payloads.
pub fn input([operations, files, names, index]: [&[u8]; 4]) -> Vec<u8> {
    let length = |it: &[u8]| u16::try_from(it.len()).expect("a short seed").to_le_bytes();
    let lengths = [index, files, names].map(length).concat();
    [&lengths, index, files, names, operations].concat()
}

/// Position of the frame of a kind, if the frames before it have these payloads.
pub fn place(payloads: [&[u8]; 4], kind: usize) -> u64 {
    let before = payloads[..kind].iter().map(|it| FRAME_HEADER_BYTES + compressed(it).len());
    FILE_HEADER_BYTES + before.sum::<usize>() as u64
}

fn compressed(payload: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(payload, 1).expect("memory")
}

/// Plan with the payloads of these bytes.
pub fn plan(data: &[u8]) -> File {
    let payloads = payloads(data);
    let mut bytes = [&FILE_MAGIC[..], &VERSION.to_le_bytes(), &[0; 6]].concat();
    for (kind, payload) in KINDS.into_iter().zip(payloads) {
        let stored = compressed(payload);
        let length = |it: &[u8]| u32::try_from(it.len()).expect("short");
        let mut header = FRAME_MAGIC.to_vec();
        for it in [kind, length(&stored), length(payload), crc32fast::hash(&stored)] {
            header.extend(it.to_le_bytes());
        }
        header.extend(crc32fast::hash(&header).to_le_bytes());
        bytes.extend(header);
        bytes.extend(stored);
    }
    bytes.extend(place(payloads, 3).to_le_bytes());
    bytes.extend(END_MAGIC);
    file(&bytes)
}

/// A file without a name.
pub fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile_in("/dev/shm").expect("a file");
    file.write_all(bytes).and_then(|()| file.rewind()).expect("memory");
    file
}
