//! Tracks that every trace has.

use std::io;

use super::packets::{PacketWriter, TrackId};

/// Track of the capture: its begin and end, and its anomalies.
pub(super) const CAPTURE: TrackId = TrackId(4);

/// Parent of the tracks of all block devices.
pub(super) const BLOCK_DEVICES: TrackId = TrackId(8);

/// Describes these tracks.
pub(super) fn describe<W: io::Write>(out: &mut PacketWriter<W>) -> io::Result<()> {
    out.describe(CAPTURE, None, b"capture", |_| ())?;
    out.describe(BLOCK_DEVICES, None, b"block devices", |_| ())
}
