//! Layers at work inside a system call: spans of time in the VFS, in a file system, in its journal,
//! in the page cache.
//!
//! Kprobes at the entries and returns of functions report the spans, if the kernel allows these
//! ([`LAYER_FUNCTIONS`]). Otherwise tracepoints at both ends of some functions report spans, and
//! other tracepoints report a step that has just ended ([`LAYER_POINTS`]).

use super::probe_names::GROUP_PREFIX;
use crate::tracefs::{BindError, EventFormat, IntField};
use crate::units::DevId;

/// Layer of the kernel between a system call and a device, in the order from above to below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Code that all file systems share.
    Vfs,
    /// Code of a file system.
    Fs,
    /// Page cache: the time until the data of a read is there.
    Cache,
    /// Journal of a file system.
    Journal,
    /// Throttling of a writer, because too many pages are dirty.
    Throttle,
    /// Time in which a bio or request waits for its driver.
    Queue,
    /// Time in which the driver works on a request.
    Device,
}

impl Layer {
    /// Returns the word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vfs => "vfs",
            Self::Fs => "fs",
            Self::Cache => "cache",
            Self::Journal => "journal",
            Self::Throttle => "throttle",
            Self::Queue => "queue",
            Self::Device => "device",
        }
    }
}

/// Meaning of an event for a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The span begins.
    Begin,
    /// The span ends.
    End,
    /// The span ends; it began at the end of the thread's last span, or with its call.
    Since,
    /// The span begins now and is to last this number of milliseconds.
    Pause(i64),
    /// A thread of the journal begins to write the journal for all threads that wait for it.
    CommitBegin,
    /// The thread of the journal has written the journal.
    CommitEnd,
    /// The span ends, and was not part of a call: asynchronous.
    Apart,
}

impl Edge {
    /// Returns true if the thread of the event does not identify the tasks that the span concerns.
    pub fn concerns_any_process(self) -> bool {
        matches!(self, Self::CommitBegin | Self::CommitEnd)
    }
}

/// Event that reports a span's edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerEvent {
    /// Layer of the span.
    pub layer: Layer,
    /// Function, or the common name of the tracepoints at its ends.
    pub what: &'static str,
    /// Meaning of the event.
    pub edge: Edge,
    /// Device of the file system, if it is reported.
    pub dev: Option<DevId>,
    /// Number of the journal's transaction, of a commit.
    pub transaction: Option<u32>,
}

/// Tracepoint that reports a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerPoint {
    /// System of the tracepoint.
    pub system: &'static str,
    /// Name of the tracepoint.
    pub name: &'static str,
    layer: Layer,
    what: &'static str,
    edge: Edge,
}

const fn point(
    system: &'static str,
    name: &'static str,
    layer: Layer,
    what: &'static str,
    edge: Edge,
) -> LayerPoint {
    LayerPoint { system, name, layer, what, edge }
}

/// Tracepoints of layers (`include/trace/events/{ext4,filemap,writeback,jbd2}.h`,
/// `fs/iomap/trace.h`). Each kernel has some: `mm_filemap_get_pages` since 6.12, those of `iomap`
/// since 6.6, `ext4_direct_IO` until 5.10. The beginning of `iomap_dio_rw` is in
/// [`super::file_io::FILE_IO_POINTS`].
pub const LAYER_POINTS: [LayerPoint; 24] = {
    use Edge::{Begin, CommitBegin, CommitEnd, End, Pause, Since};
    use Layer::{Cache, Fs, Journal, Throttle};
    [
        point("ext4", "ext4_write_begin", Fs, "ext4_write", Begin),
        point("ext4", "ext4_write_end", Fs, "ext4_write", End),
        point("ext4", "ext4_journalled_write_end", Fs, "ext4_write", End),
        point("ext4", "ext4_da_write_begin", Fs, "ext4_da_write", Begin),
        point("ext4", "ext4_da_write_end", Fs, "ext4_da_write", End),
        point("ext4", "ext4_sync_file_enter", Fs, "ext4_sync_file", Begin),
        point("ext4", "ext4_sync_file_exit", Fs, "ext4_sync_file", End),
        point("ext4", "ext4_direct_IO_enter", Fs, "ext4_direct_IO", Begin),
        point("ext4", "ext4_direct_IO_exit", Fs, "ext4_direct_IO", End),
        point("ext4", "ext4_writepages", Fs, "ext4_writepages", Begin),
        point("ext4", "ext4_writepages_result", Fs, "ext4_writepages", End),
        point("ext4", "ext4_truncate_enter", Fs, "ext4_truncate", Begin),
        point("ext4", "ext4_truncate_exit", Fs, "ext4_truncate", End),
        point("ext4", "ext4_fallocate_enter", Fs, "ext4_fallocate", Begin),
        point("ext4", "ext4_fallocate_exit", Fs, "ext4_fallocate", End),
        point("ext4", "ext4_unlink_enter", Fs, "ext4_unlink", Begin),
        point("ext4", "ext4_unlink_exit", Fs, "ext4_unlink", End),
        point("iomap", "iomap_dio_complete", Fs, IOMAP_DIO, End),
        point("filemap", "mm_filemap_get_pages", Cache, "get_pages", Since),
        point("writeback", "balance_dirty_pages", Throttle, "balance_dirty_pages", Pause(0)),
        point("jbd2", "jbd2_handle_start", Journal, "jbd2_handle", Begin),
        point("jbd2", "jbd2_handle_stats", Journal, "jbd2_handle", End),
        point("jbd2", "jbd2_start_commit", Journal, COMMIT, CommitBegin),
        point("jbd2", "jbd2_end_commit", Journal, COMMIT, CommitEnd),
    ]
};

/// Name of direct I/O, whose beginning is reported by a tracepoint with more fields.
pub const IOMAP_DIO: &str = "iomap_dio_rw";

/// Name of a commit of the journal.
pub const COMMIT: &str = "jbd2_commit";

/// Prefix of the names of probes at the entries of functions.
pub const ENTER_PREFIX: &str = "enter_";
/// Prefix of the names of probes at the returns of functions.
pub const LEAVE_PREFIX: &str = "leave_";

/// Functions of the kernel that are the work of one layer, from entry to return. A kernel that
/// lacks some, or has inlined them into others, is probed at the rest.
pub const LAYER_FUNCTIONS: [(&str, Layer); 22] = [
    ("vfs_read", Layer::Vfs),
    ("vfs_write", Layer::Vfs),
    ("vfs_readv", Layer::Vfs),
    ("vfs_writev", Layer::Vfs),
    ("vfs_open", Layer::Vfs),
    // The compiler decides which of them is a function of its own when `fsync` runs (`fs/sync.c`):
    // on 7.3 it is the first one, on 6.1 the other one. Where both are, one is seen inside the
    // other.
    ("do_fsync", Layer::Vfs),
    ("vfs_fsync_range", Layer::Vfs),
    ("vfs_fallocate", Layer::Vfs),
    ("vfs_unlink", Layer::Vfs),
    ("vfs_rename", Layer::Vfs),
    ("ext4_file_read_iter", Layer::Fs),
    ("ext4_file_write_iter", Layer::Fs),
    ("ext4_file_open", Layer::Fs),
    ("ext4_sync_file", Layer::Fs),
    ("xfs_file_read_iter", Layer::Fs),
    ("xfs_file_write_iter", Layer::Fs),
    ("xfs_file_open", Layer::Fs),
    ("xfs_file_fsync", Layer::Fs),
    ("btrfs_file_read_iter", Layer::Fs),
    ("btrfs_file_write_iter", Layer::Fs),
    ("btrfs_file_open", Layer::Fs),
    ("btrfs_sync_file", Layer::Fs),
];

impl LayerPoint {
    /// Returns true if it replaces a function that probes see better.
    pub fn is_stand_in(&self) -> bool {
        self.layer == Layer::Fs
    }

    /// Returns true if the thread of its events does not identify the tasks that they concern.
    pub fn concerns_any_process(&self) -> bool {
        self.edge.concerns_any_process()
    }
}

/// Returns the function and layer of one of the tracer's probes, and whether it is at the entry.
pub fn probed(system: &str, name: &str) -> Option<(&'static str, Layer, bool)> {
    system.strip_prefix(GROUP_PREFIX)?;
    let (is_entry, rest) = match name.strip_prefix(ENTER_PREFIX) {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix(LEAVE_PREFIX)?),
    };
    let function = rest.rsplit_once('_')?.0;
    let found = LAYER_FUNCTIONS.iter().find(|it| it.0 == function)?;
    Some((found.0, found.1, is_entry))
}

/// Returns true if this is the system of the tracer's probes.
pub fn is_probe(system: &str) -> bool {
    system.starts_with(GROUP_PREFIX)
}

/// Returns the layer that a tracepoint or a probe reports.
pub fn of_point(system: &str, name: &str) -> Option<Layer> {
    let point = LAYER_POINTS.iter().find(|it| (it.system, it.name) == (system, name));
    point.map(|it| it.layer).or_else(|| probed(system, name).map(|it| it.1))
}

/// Fields of one tracepoint.
#[derive(Debug)]
pub(super) struct LayerShape {
    event: LayerEvent,
    dev: Option<IntField>,
    pause: Option<IntField>,
    aio: Option<IntField>,
    transaction: Option<IntField>,
}

impl LayerShape {
    /// Binds the fields; `None` if there is no such tracepoint or probe.
    pub(super) fn of(
        system: &str,
        name: &str,
        format: &EventFormat,
    ) -> Result<Option<Self>, BindError> {
        if let Some((what, layer, is_entry)) = probed(system, name) {
            let edge = if is_entry { Edge::Begin } else { Edge::End };
            let event = LayerEvent { layer, what, edge, dev: None, transaction: None };
            return Ok(Some(Self { event, dev: None, pause: None, aio: None, transaction: None }));
        }
        let Some(point) = LAYER_POINTS.iter().find(|it| (it.system, it.name) == (system, name))
        else {
            return Ok(None);
        };
        let LayerPoint { layer, what, edge, .. } = *point;
        let event = LayerEvent { layer, what, edge, dev: None, transaction: None };
        let pause = matches!(edge, Edge::Pause(_)).then(|| format.int("pause")).transpose()?;
        let aio = if what == IOMAP_DIO { Some(format.int("aio")?) } else { None };
        let is_commit = edge.concerns_any_process();
        let transaction = if is_commit { format.int_opt("transaction")? } else { None };
        Ok(Some(Self { event, dev: format.int_opt("dev")?, pause, aio, transaction }))
    }

    /// Reads an event; `None` if the payload is too short.
    pub(super) fn read(&self, payload: &[u8]) -> Option<LayerEvent> {
        let mut event = self.event;
        if let Some(dev) = &self.dev {
            event.dev = Some(DevId(u32::try_from(dev.read_u64(payload)?).ok()?));
        }
        if let Some(transaction) = &self.transaction {
            let number = transaction.read_u64(payload)?;
            // The field is an int with the bits of an unsigned number.
            event.transaction = u32::try_from(number & u64::from(u32::MAX)).ok();
        }
        if let Some(pause) = &self.pause {
            event.edge = Edge::Pause(pause.read_i64(payload)?);
        }
        if let Some(aio) = &self.aio
            && aio.read_u64(payload)? != 0
        {
            event.edge = Edge::Apart;
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_known_by_their_names() {
        let found = probed("iotrace_42", "enter_ext4_file_read_iter_42");
        assert_eq!(found, Some(("ext4_file_read_iter", Layer::Fs, true)));
        let found = probed("iotrace_42", "leave_vfs_read_42");
        assert_eq!(found, Some(("vfs_read", Layer::Vfs, false)));
        assert_eq!(probed("kprobes", "leave_vfs_read_42"), None);
        assert_eq!(probed("iotrace_42", "leave_vfs_nonsense_42"), None);
        assert_eq!(probed("iotrace_42", "path0_42"), None);
    }

    #[test]
    fn layer_begins_have_ends() {
        for it in &LAYER_POINTS {
            let has =
                |edge| LAYER_POINTS.iter().any(|other| other.what == it.what && other.edge == edge);
            match it.edge {
                Edge::Begin | Edge::End if it.what != IOMAP_DIO => {
                    assert!(has(Edge::Begin) && has(Edge::End), "{it:?}");
                }
                Edge::CommitBegin => assert!(has(Edge::CommitEnd)),
                _ => {}
            }
        }
    }
}
