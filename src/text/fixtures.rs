//! Fixtures of operations for the tests of all formats.

use std::sync::Arc;

use crate::anomaly::{Anomaly, AnomalyKind, Link};
use crate::event::FileStat;
use crate::event::async_table::{Interface, Opcode};
use crate::event::block::{BlockPoint, DevicePosition, RequestOp, Rwbs};
use crate::event::layer::Layer;
use crate::event::syscall_table::CallId;
use crate::operation::asynchronous::AsyncOperation;
use crate::operation::attribution::{
    BlockContents, LastWriter, Piece, StackedLocation, device_file,
};
use crate::operation::block::{
    BlockRequest, BlockStep, EventContext, FlushRole, Inferred, RequestEnd, RequestId, Submitter,
    SubmitterSource, UnfinishedRequest,
};
use crate::operation::fault::Fault;
use crate::operation::model::{
    FilePath, MountNamespace, OpenFile, PathArgument, PathArguments, PathSource, ProcessKey,
    SyscallOperation, ThreadInfo, ThreadKey,
};
use crate::operation::span::Span;
use crate::operation::{Sink, Step};
use crate::units::{CpuId, DevId, Fd, KernelTime, Pid, Tid};

/// Start of the tests' captures.
pub(super) const START: KernelTime = KernelTime(5_000_000_000);

/// Register with `AT_FDCWD` as programs pass it: a 32-bit number, with an upper half of zero.
pub(super) const CWD: u64 = 0xffff_ff9c;

/// The disks of the tests.
pub(super) fn disks() -> [(DevId, String); 2] {
    [(DevId::new(7, 0), "loop0".to_owned()), (DevId::new(8, 16), "odd disk\x1b".to_owned())]
}

/// Time this many nanoseconds after the start.
pub(super) fn at(ns: i64) -> KernelTime {
    KernelTime(START.0.checked_add_signed(ns).expect("in range"))
}

/// Thread 4712 of process 4711.
pub(super) fn thread(comm: &[u8]) -> ThreadInfo {
    ThreadInfo { key: ThreadKey(0), process: ProcessKey(0), tid: Tid(4712), comm: comm.to_vec() }
}

/// A file of this name.
pub(super) fn file(path: &[u8], source: PathSource) -> Arc<OpenFile> {
    let path = Some(FilePath::new(path, source));
    Arc::new(OpenFile {
        id: 1,
        path,
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    })
}

/// A call of that thread that took 12 µs, on a descriptor and its file.
pub(super) fn call(
    name: &str,
    args: &[u64],
    ret: i64,
    fd: Option<i32>,
    file: Option<&Arc<OpenFile>>,
) -> SyscallOperation {
    let mut registers = [0; 6];
    for (register, arg) in registers.iter_mut().zip(args) {
        *register = *arg;
    }
    SyscallOperation {
        call: CallId::by_name(name).expect(name),
        thread: ThreadKey(0),
        process: ProcessKey(0),
        pid: Pid(4711),
        tid: Tid(4712),
        cpu: CpuId(1),
        start: at(123_456),
        end: Some(at(135_999)),
        args: registers,
        ret: Some(ret),
        fd: fd.map(Fd),
        file: file.cloned(),
        named: None,
        target: None,
        target_offset: None,
        flags_in_memory: None,
        resolve_in_memory: None,
        spans: Vec::new(),
        offset: None,
        bytes_requested: None,
        chain: None,
    }
}

/// A sync with work in a file system, and a wait for a request.
pub(super) fn with_spans() -> SyscallOperation {
    let span = |layer, what, begin, end| Span { layer, what, begin: at(begin), end: at(end) };
    let spans = vec![
        span(Layer::Device, "request", 124_000, 130_000),
        span(Layer::Fs, "ext4_sync_file", 123_500, 135_000),
    ];
    SyscallOperation { spans, ..call("fsync", &[3], 0, Some(3), None) }
}

/// Both paths of a rename.
pub(super) fn renamed(path: &[u8]) -> PathArguments {
    let path = FilePath::new(path, PathSource::Argument);
    let given = PathArgument { absolute: Some([b"/", path.bytes.as_slice()].concat()), path };
    PathArguments { first: Some(given.clone()), second: Some(given) }
}

/// A failed open of this path.
pub(super) fn failed_open(path: &[u8], source: PathSource) -> SyscallOperation {
    let mut open = call("openat", &[CWD, 0x7fff_0000, 0o1101, 0o644], -2, None, None);
    let path = FilePath::new(path, source);
    let first = Some(PathArgument { path, absolute: None });
    open.named = Some(Box::new(PathArguments { first, second: None }));
    open
}

/// A page fault on a file.
pub(super) fn fault(file: &Arc<OpenFile>) -> Fault {
    Fault {
        thread: ThreadKey(0),
        process: ProcessKey(0),
        pid: Pid(4711),
        tid: Tid(4712),
        cpu: CpuId(1),
        time: at(500_000),
        address: Some(0x7f00_0000_1007),
        write: Some(true),
        file: Arc::clone(file),
        offset: 4103,
    }
}

/// An operation of a ring on a file, which took 80 µs.
pub(super) fn asynchronous(file: &Arc<OpenFile>) -> AsyncOperation {
    AsyncOperation {
        id: 0,
        opcode: Opcode { interface: Interface::IoUring, number: 22 },
        thread: ThreadKey(0),
        process: ProcessKey(0),
        pid: Pid(4711),
        tid: Tid(4712),
        cpu: CpuId(1),
        start: at(210_000),
        end: Some(at(290_000)),
        ring: 0,
        user_data: u64::MAX,
        fd: Some(Fd(3)),
        file: Some(Arc::clone(file)),
        target: None,
        fixed_file: false,
        offset: None,
        bytes_requested: None,
        result: Some(4096),
        results: 1,
        bytes_before: 0,
        by_worker: false,
        rw_flags: 0,
        flags: 0,
    }
}

/// An asynchronous operation on two files in mounts that are not the tracer's.
pub(super) fn asynchronous_elsewhere() -> AsyncOperation {
    let file = elsewhere(b"/data/a\xff");
    AsyncOperation { target: Some((Fd(9), Arc::clone(&file))), ..asynchronous(&file) }
}

/// A file in mounts that are not the tracer's.
pub(super) fn elsewhere(path: &[u8]) -> Arc<OpenFile> {
    let path = Some(FilePath::new(path, PathSource::Link).within(MountNamespace(1)));
    Arc::new(OpenFile {
        id: 1,
        path,
        first_path: None,
        given: None,
        stat: Some(FileStat { mode: libc::S_IFREG, dev: DevId::new(259, 1), ino: 7, size: 9 }),
        flags: None,
        pre_created: false,
    })
}

/// Several asynchronous operations: plain, completely known, on a registered file, failed, with
/// several results, of an unknown kind, with two files.
pub(super) fn asynchronous_ones() -> Vec<AsyncOperation> {
    let one = asynchronous(&file(b"/data/a\xff", PathSource::Link));
    let of_aio = Opcode { interface: Interface::Aio, number: 1 };
    let of_tomorrow = Opcode { interface: Interface::IoUring, number: 999 };
    vec![
        one.clone(),
        AsyncOperation {
            opcode: of_aio,
            offset: Some(8192),
            bytes_requested: Some(4096),
            ..one.clone()
        },
        AsyncOperation { fd: None, file: None, fixed_file: true, by_worker: true, ..one.clone() },
        AsyncOperation { result: Some(-9), ..one.clone() },
        AsyncOperation { results: 3, bytes_before: 150, result: Some(0), ..one.clone() },
        AsyncOperation { opcode: of_tomorrow, fd: None, file: None, ..one.clone() },
        AsyncOperation {
            opcode: Opcode { interface: Interface::IoUring, number: 30 },
            target: Some((Fd(9), file(b"/data/b\xff", PathSource::Link))),
            ..one
        },
    ]
}

/// A complete write of 8 sectors.
pub(super) fn request() -> BlockRequest {
    BlockRequest {
        id: RequestId(0),
        dev: DevId::new(7, 0),
        op: RequestOp::Write,
        rwbs: Rwbs::new(b"WS"),
        sector: 2048,
        nr_sector: 8,
        bytes_done: 4096,
        first_seen: BlockPoint::GetRq,
        queued: Some(at(300_000)),
        inserted: Some(at(301_000)),
        issued: Some(at(303_000)),
        reissued: None,
        data_completed: None,
        completed: Some(at(383_000)),
        submitter: Some(Submitter { pid: Pid(12), tid: Tid(13), source: SubmitterSource::GetRq }),
        error: None,
        merges: 2,
        requeues: 1,
        flush: FlushRole::None,
        inferred: Inferred::default(),
        is_stillborn: false,
        ending: Some(RequestEnd::Completed),
        parts: std::sync::Arc::default(),
    }
}

/// Requests with each kind of ending: an error, absorbed, unfinished, given up, without a
/// submitter, without a scheduler.
pub(super) fn requests() -> Vec<BlockRequest> {
    let plain = request();
    let open = BlockRequest { completed: None, bytes_done: 0, ..plain.clone() };
    let absorbed =
        RequestEnd::Absorbed { into: Some(RequestId(7)), at: at(302_000), inferred: false };
    vec![
        plain.clone(),
        BlockRequest {
            error: Some(5),
            inserted: None,
            op: RequestOp::Read,
            rwbs: Rwbs::new(b"RA"),
            ..plain.clone()
        },
        BlockRequest { issued: None, ending: Some(absorbed), ..open.clone() },
        BlockRequest {
            ending: Some(RequestEnd::Unfinished(UnfinishedRequest::CaptureEnd)),
            ..open.clone()
        },
        BlockRequest {
            ending: Some(RequestEnd::Unfinished(UnfinishedRequest::GivenUp)),
            ..open.clone()
        },
        BlockRequest {
            dev: DevId::new(8, 16),
            op: RequestOp::Flush,
            rwbs: Rwbs::new(b"FF"),
            sector: u64::MAX,
            nr_sector: 0,
            bytes_done: 0,
            queued: None,
            inserted: None,
            issued: Some(at(-500)),
            submitter: None,
            flush: FlushRole::Device { serves: None },
            ..plain.clone()
        },
        BlockRequest {
            dev: DevId::new(259, 3),
            op: RequestOp::Discard,
            rwbs: Rwbs::new(b"D"),
            sector: u64::MAX - 1,
            nr_sector: u32::MAX,
            ..plain.clone()
        },
    ]
}

/// Pieces of a request: of a file on a partition, of a file without a name with two writers, of a
/// journal.
pub(super) fn pieces() -> Vec<Piece> {
    let by =
        |pid: i32| EventContext { time: at(290_000), cpu: CpuId(0), pid: Pid(pid), tid: Tid(pid) };
    let path = FilePath::new(b"/mnt/a file;\x1b\xff", PathSource::Link);
    let file = OpenFile {
        id: 3,
        path: Some(path),
        first_path: None,
        given: None,
        stat: None,
        flags: None,
        pre_created: false,
    };
    let writer =
        |pid: i32| LastWriter { process: ProcessKey(0), pid: Pid(pid), comm: (*b"dd\xfe").into() };
    let key = (DevId::new(259, 1), 12);
    let piece = |sector: u64, queued: EventContext, contents: BlockContents| Piece {
        sector,
        nr_sector: 8,
        queued,
        levels: [DevicePosition { dev: DevId::new(259, 1), sector: sector - 2048 }].into(),
        contents,
        above: Vec::new(),
        for_others: queued.pid == Pid(9),
        writers: Vec::new(),
    };
    let named = BlockContents::File {
        key,
        offset: Some(4096),
        file: Some(Arc::new(file)),
        link: Link::Exact,
    };
    let nameless = BlockContents::File { key, offset: None, file: None, link: Link::Inferred };
    let (key, offset) = (device_file(DevId::new(8, 0)), Some(2072 * 512));
    let itself = BlockContents::File { key, offset, file: None, link: Link::Inferred };
    vec![
        piece(2048, by(12), named.clone()),
        Piece { writers: vec![writer(12), writer(13)], ..piece(2056, by(9), nameless) },
        Piece {
            above: vec![StackedLocation {
                place: DevicePosition { dev: DevId::new(7, 0), sector: 8 },
                contents: named.clone(),
            }],
            ..piece(2064, by(9), BlockContents::Journal)
        },
        piece(2072, by(12), itself),
    ]
}

/// Records that the kernel dropped, with a detail that contains control characters.
pub(super) fn lost() -> Anomaly {
    Anomaly {
        kind: AnomalyKind::Lost,
        time: at(400_000),
        cpu: CpuId(1),
        pid: Pid(-1),
        tid: Tid(4712),
        count: 17,
        detail: "the ring \"was\" full\n\x1b[31m".to_owned(),
    }
}

/// Passes one step to a sink, which writes the result to its writer.
#[track_caller]
pub(super) fn pass<S: Sink<Error = std::io::Error>>(sink: &mut S, step: &Step<'_>) {
    sink.step(at(0), step).expect("a vector takes everything");
}

/// Passes ended calls to a sink.
#[track_caller]
pub(super) fn pass_calls<S: Sink<Error = std::io::Error>>(
    sink: &mut S,
    calls: &[SyscallOperation],
) {
    for call in calls {
        pass(sink, &Step::SyscallEnded(call, &[]));
    }
}

/// Passes all steps of a request to a sink; only the last may write anything.
#[track_caller]
pub(super) fn pass_request<S: Sink<Error = std::io::Error>>(
    sink: &mut S,
    request: &BlockRequest,
    thread: Option<&ThreadInfo>,
    pieces: &[Piece],
) {
    for step in [BlockStep::Queued(request), BlockStep::Issued(request), BlockStep::Ended(request)]
    {
        pass(sink, &Step::Block { step: &step, thread, pieces });
    }
}
