//! Synthetic tracepoints of an imported log: `format` texts that describe where its data is.
//!
//! No kernel wrote these records, so fields without a reader are omitted, and the offsets of fields
//! are ours. Everything else is as in a kernel's record.

use super::log_content::LogContent;
use crate::capture::header;
use crate::event::block::BlockPoint;

/// Fields that all tracepoints have first.
const COMMON: [SyntheticField; 4] = [
    SyntheticField("unsigned short common_type", 2, 1, false),
    SyntheticField("unsigned char common_flags", 1, 1, false),
    SyntheticField("unsigned char common_preempt_count", 1, 1, false),
    SyntheticField("int common_pid", 4, 1, true),
];

/// Declaration of a field, bytes of an element, number of elements, and whether it has a sign.
struct SyntheticField(&'static str, usize, usize, bool);

const CALL: SyntheticField = SyntheticField("long id", 8, 1, true);
const RWBS: SyntheticField = SyntheticField("char rwbs[10]", 1, 10, true);
const COMM: SyntheticField = SyntheticField("char comm[16]", 1, 16, true);
const DEV: SyntheticField = SyntheticField("dev_t dev", 4, 1, false);
const SECTOR: SyntheticField = SyntheticField("sector_t sector", 8, 1, false);
const COUNT: SyntheticField = SyntheticField("unsigned int nr_sector", 4, 1, false);

const REQUEST: &[SyntheticField] = &[DEV, SECTOR, COUNT, RWBS, COMM];
const DONE: &[SyntheticField] =
    &[DEV, SECTOR, COUNT, SyntheticField("int error", 4, 1, true), RWBS, COMM];
const SPLIT: &[SyntheticField] =
    &[DEV, SECTOR, SyntheticField("sector_t new_sector", 8, 1, false), RWBS, COMM];
const REMAP: &[SyntheticField] = &[
    DEV,
    SECTOR,
    COUNT,
    SyntheticField("dev_t old_dev", 4, 1, false),
    SyntheticField("sector_t old_sector", 8, 1, false),
    RWBS,
];

/// Key of one of [`POINTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    Enter,
    Exit,
    NewTask,
    Block(BlockPoint),
}

/// Tracepoints: key, system, name and fields. The `common_type` of each is its position, from 1.
const POINTS: [(Point, &str, &str, &[SyntheticField]); 15] = {
    use BlockPoint as B;
    use Point::Block;
    [
        (
            Point::Enter,
            "raw_syscalls",
            "sys_enter",
            &[CALL, SyntheticField("unsigned long args[6]", 8, 6, false)],
        ),
        (Point::Exit, "raw_syscalls", "sys_exit", &[CALL, SyntheticField("long ret", 8, 1, true)]),
        (
            Point::NewTask,
            "task",
            "task_newtask",
            &[
                SyntheticField("pid_t pid", 4, 1, true),
                SyntheticField("unsigned long clone_flags", 8, 1, false),
            ],
        ),
        (Block(B::BioQueue), "block", "block_bio_queue", REQUEST),
        (Block(B::GetRq), "block", "block_getrq", REQUEST),
        (Block(B::Insert), "block", "block_rq_insert", REQUEST),
        (Block(B::Issue), "block", "block_rq_issue", REQUEST),
        (Block(B::Complete), "block", "block_rq_complete", DONE),
        (Block(B::Requeue), "block", "block_rq_requeue", REQUEST),
        (Block(B::BackMerge), "block", "block_bio_backmerge", REQUEST),
        (Block(B::FrontMerge), "block", "block_bio_frontmerge", REQUEST),
        (Block(B::RqMerge), "block", "block_rq_merge", REQUEST),
        (Block(B::Split), "block", "block_split", SPLIT),
        (Block(B::Remap), "block", "block_bio_remap", REMAP),
        (Block(B::BioComplete), "block", "block_bio_complete", DONE),
    ]
};

/// Offset of a field if the one before ends here.
fn aligned(end: usize, field: &SyntheticField) -> usize {
    end.next_multiple_of(field.1)
}

/// Text of a `format` file.
fn format(id: usize, name: &str, fields: &[SyntheticField]) -> String {
    let mut end = 0;
    let mut lines = |fields: &[SyntheticField]| -> String {
        let line = |field: &SyntheticField| {
            let SyntheticField(declaration, size, count, signed) = field;
            let (offset, bytes) = (aligned(end, field), size * count);
            end = offset + bytes;
            let signed = u8::from(*signed);
            format!("\tfield:{declaration};\toffset:{offset};\tsize:{bytes};\tsigned:{signed};\n")
        };
        fields.iter().map(line).collect()
    };
    let (common, own) = (lines(&COMMON), lines(fields));
    format!("name: {name}\nID: {id}\nformat:\n{common}\n{own}\nprint fmt: \"\"\n")
}

/// Tracepoints for the header of a log: calls and tasks, block requests, or both.
pub(super) fn described(content: LogContent) -> Vec<header::Tracepoint> {
    let all = POINTS.iter().zip(1..);
    let wanted = all.filter(|(point, _)| match point.0 {
        Point::Block(_) => content.has_requests(),
        Point::Enter | Point::Exit | Point::NewTask => content.has_calls(),
    });
    wanted
        .map(|(&(_, system, name, fields), id)| header::Tracepoint {
            system: system.into(),
            name: name.into(),
            id,
            format: format(id.into(), name, fields),
            filter: String::new(),
            ring: 0,
        })
        .collect()
}

/// Appends the payload of an event: the bytes of each field, truncated or filled with 0 to its
/// size.
pub(super) fn payload(out: &mut Vec<u8>, point: Point, tid: i32, values: &[&[u8]]) {
    let found = POINTS.iter().zip(1_u16..).find(|(it, _)| it.0 == point);
    let Some((&(_, _, _, fields), id)) = found else { return };
    let start = out.len();
    let common: [&[u8]; 4] = [&id.to_le_bytes(), &[0], &[0], &tid.to_le_bytes()];
    let values = common.iter().chain(values);
    for (field, value) in COMMON.iter().chain(fields).zip(values) {
        let offset = aligned(out.len() - start, field);
        out.resize(start + offset, 0);
        let size = field.1 * field.2;
        out.extend_from_slice(value.get(..size).unwrap_or(value));
        out.resize(start + offset + size, 0);
    }
}

/// Number of a tracepoint, as in [`described`].
pub(super) fn number(point: Point) -> u16 {
    POINTS.iter().zip(1..).find(|(it, _)| it.0 == point).map_or(0, |point| point.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::block::BlockEvent;
    use crate::event::decode::Decoder;
    use crate::event::syscall_table::CallId;
    use crate::event::{EventKind, SysEnter};

    #[test]
    fn our_decoder_reads_what_the_texts_describe() {
        let mut decoder = Decoder::new("x86_64");
        for it in described(LogContent::Both) {
            decoder.add(&it.system, &it.name, it.id, &it.format).expect(&it.name);
        }
        let read = CallId::by_name("read").expect("a row");
        let args = [3, 4, 5, 6, 7, 8];
        let mut bytes = Vec::new();
        let registers = args.map(u64::to_le_bytes);
        payload(&mut bytes, Point::Enter, 7, &[&0_u64.to_le_bytes(), registers.as_flattened()]);
        assert_eq!(decoder.decode(&bytes), Ok(EventKind::SysEnter(SysEnter { call: read, args })));
        assert_eq!(decoder.thread(&bytes).map(|thread| thread.0), Some(7));
        bytes.clear();
        let done: [&[u8]; 6] = [
            &[1, 0, 128, 0],
            &[9, 0, 0, 0, 0, 0, 0, 0],
            &[8, 0, 0, 0],
            &[251, 255, 255, 255],
            b"WS",
            b"dd",
        ];
        payload(&mut bytes, Point::Block(BlockPoint::Complete), 7, &done);
        let Ok(EventKind::Block(BlockEvent { sector, nr_sector, error, rwbs, .. })) =
            decoder.decode(&bytes)
        else {
            panic!("{bytes:?}");
        };
        assert_eq!((sector, nr_sector, error, rwbs.as_bytes()), (9, 8, -5, &b"WS"[..]));
    }
}
