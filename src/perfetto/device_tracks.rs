//! Tracks of one block device: its counters, and below them its lanes, which may be many.

use std::io;

use super::lanes::TrackLanes;
use super::packets::{PacketWriter, TrackId};
use super::schema::{counter, track};
use super::sink_tracks::BLOCK_DEVICES;
use crate::event::block::RequestOp;
use crate::operation::block::BlockRequest;
use crate::units::KernelTime;

/// Rank of the lanes among the tracks of a device, below the counters.
const LANES_RANK: u64 = 4;

/// A counter and its last value.
#[derive(Debug)]
struct CounterTrack {
    id: TrackId,
    value: u64,
}

impl CounterTrack {
    fn new<W: io::Write>(
        parent: TrackId,
        name: &str,
        unit: u64,
        rank: u64,
        out: &mut PacketWriter<W>,
    ) -> io::Result<Self> {
        let id = out.new_track();
        out.describe(id, Some(parent), name.as_bytes(), |fields| {
            fields.unsigned(track::SIBLING_ORDER_RANK, rank);
            let message = fields.begin(track::COUNTER);
            fields.unsigned(counter::UNIT, unit);
            fields.end(message);
        })?;
        Ok(Self { id, value: 0 })
    }

    fn set<W: io::Write>(
        &mut self,
        time: KernelTime,
        value: u64,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        self.value = value;
        out.count(self.id, time, value)
    }
}

/// A device that has had a request.
#[derive(Debug)]
pub(super) struct DeviceTracks {
    id: TrackId,
    lanes: TrackLanes,
    waiting: CounterTrack,
    at_driver: CounterTrack,
    bytes_read: CounterTrack,
    bytes_written: CounterTrack,
}

impl DeviceTracks {
    /// Describes the tracks of a device.
    pub(super) fn new<W: io::Write>(name: &str, out: &mut PacketWriter<W>) -> io::Result<Self> {
        let id = out.new_track();
        out.describe(id, Some(BLOCK_DEVICES), name.as_bytes(), |fields| {
            fields.unsigned(track::CHILD_ORDERING, track::EXPLICIT);
        })?;
        let mut of = |rank: u64, what: &str, unit: u64| {
            CounterTrack::new(id, &format!("{name} {what}"), unit, rank, out)
        };
        Ok(Self {
            id,
            lanes: TrackLanes::default(),
            waiting: of(0, "requests waiting", counter::COUNT)?,
            at_driver: of(1, "requests at the driver", counter::COUNT)?,
            bytes_read: of(2, "bytes read", counter::SIZE_BYTES)?,
            bytes_written: of(3, "bytes written", counter::SIZE_BYTES)?,
        })
    }

    /// Returns a lane for a request.
    pub(super) fn lane<W: io::Write>(
        &mut self,
        start: KernelTime,
        end: KernelTime,
        out: &mut PacketWriter<W>,
    ) -> io::Result<TrackId> {
        if let Some(free) = self.lanes.take(start, end) {
            return Ok(free);
        }
        let id = out.new_track();
        out.describe(id, Some(self.id), b"requests", |fields| {
            fields.unsigned(track::SIBLING_ORDER_RANK, LANES_RANK);
        })?;
        self.lanes.add(id, end);
        Ok(id)
    }

    /// Counts a request that begins.
    pub(super) fn queued<W: io::Write>(
        &mut self,
        time: KernelTime,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        self.waiting.set(time, self.waiting.value + 1, out)
    }

    /// Counts a request that moves to the driver, or back.
    pub(super) fn moved<W: io::Write>(
        &mut self,
        time: KernelTime,
        to_driver: bool,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let (less, more) = match to_driver {
            true => (&mut self.waiting, &mut self.at_driver),
            false => (&mut self.at_driver, &mut self.waiting),
        };
        less.set(time, less.value.saturating_sub(1), out)?;
        more.set(time, more.value + 1, out)
    }

    /// Counts the end of a request, and its bytes.
    pub(super) fn ended<W: io::Write>(
        &mut self,
        time: KernelTime,
        request: &BlockRequest,
        was_at_driver: bool,
        out: &mut PacketWriter<W>,
    ) -> io::Result<()> {
        let left = if was_at_driver { &mut self.at_driver } else { &mut self.waiting };
        left.set(time, left.value.saturating_sub(1), out)?;
        let sum = match request.op {
            RequestOp::Read => &mut self.bytes_read,
            RequestOp::Write | RequestOp::ZoneAppend => &mut self.bytes_written,
            _ => return Ok(()),
        };
        if request.error.is_some() || request.bytes_done == 0 {
            return Ok(());
        }
        sum.set(time, sum.value.saturating_add(request.bytes_done), out)
    }
}
