//! Field offsets of the `block:*` tracepoints.

use super::block::{BlockEvent, BlockPoint, Comm, DevicePosition, Rwbs};
use crate::tracefs::{BindError, EventFormat, IntField, StringField};
use crate::units::DevId;

/// Block tracepoints and their meanings.
///
/// Several are left out: `block_io_start` and `block_io_done`, which newer kernels have in addition
/// to `block_getrq` and `block_rq_complete`; `block_rq_error`, which repeats a completion;
/// `block_rq_remap`, of request-based dm; those of buffers and plugs.
pub const BLOCK_POINTS: [(&str, BlockPoint); 12] = [
    ("block_getrq", BlockPoint::GetRq),
    ("block_rq_insert", BlockPoint::Insert),
    ("block_rq_issue", BlockPoint::Issue),
    ("block_rq_complete", BlockPoint::Complete),
    ("block_rq_requeue", BlockPoint::Requeue),
    ("block_bio_backmerge", BlockPoint::BackMerge),
    ("block_bio_frontmerge", BlockPoint::FrontMerge),
    ("block_rq_merge", BlockPoint::RqMerge),
    ("block_bio_queue", BlockPoint::BioQueue),
    ("block_split", BlockPoint::Split),
    ("block_bio_remap", BlockPoint::Remap),
    ("block_bio_complete", BlockPoint::BioComplete),
];

/// Fields of one block tracepoint.
#[derive(Debug)]
pub(super) struct BlockShape {
    point: BlockPoint,
    dev: IntField,
    sector: IntField,
    length: Length,
    error: Option<IntField>,
    from: Option<(IntField, IntField)>,
    rwbs: StringField,
    comm: Option<StringField>,
}

/// Representation of a length.
#[derive(Debug)]
enum Length {
    Sectors(IntField),
    /// Length by the first sector after the end.
    UpTo(IntField),
}

impl BlockShape {
    pub(super) fn of(point: BlockPoint, format: &EventFormat) -> Result<Self, BindError> {
        let length = match point {
            BlockPoint::Split => Length::UpTo(format.int("new_sector")?),
            _ => Length::Sectors(format.int("nr_sector")?),
        };
        let from = match point {
            BlockPoint::Remap => Some((format.int("old_dev")?, format.int("old_sector")?)),
            _ => None,
        };
        Ok(Self {
            point,
            dev: format.int("dev")?,
            sector: format.int("sector")?,
            length,
            error: format.int_opt("error")?,
            from,
            rwbs: format.string("rwbs")?,
            comm: match point {
                BlockPoint::BioQueue => format.string_opt("comm")?,
                _ => None,
            },
        })
    }

    pub(super) fn read(&self, payload: &[u8]) -> Option<BlockEvent> {
        let error = match &self.error {
            Some(field) => i32::try_from(field.read_i64(payload)?).ok()?,
            None => 0,
        };
        let sector = self.sector.read_u64(payload)?;
        let nr_sector = match &self.length {
            Length::Sectors(field) => field.read_u64(payload)?,
            Length::UpTo(field) => field.read_u64(payload)?.checked_sub(sector)?,
        };
        let from = match &self.from {
            Some((dev, sector)) => Some(DevicePosition {
                dev: device(dev, payload)?,
                sector: sector.read_u64(payload)?,
            }),
            None => None,
        };
        Some(BlockEvent {
            point: self.point,
            dev: device(&self.dev, payload)?,
            sector,
            nr_sector: u32::try_from(nr_sector).ok()?,
            error,
            rwbs: Rwbs::new(self.rwbs.read(payload)?),
            from,
            comm: self.comm.and_then(|it| it.read(payload)).map(Comm::new),
            chain: None,
        })
    }
}

fn device(field: &IntField, payload: &[u8]) -> Option<DevId> {
    u32::try_from(field.read_u64(payload)?).ok().map(DevId)
}
