//! Events → stacks → text, table, folded lines.

use expect_test::{Expect, expect};

use super::*;
use crate::analysis::stacks::StacksOf;
use crate::capture::header::{CallChainKinds, Disk, Header};
use crate::event::block::{BlockEvent, BlockPoint, Comm, Rwbs};
use crate::event::callchain::ChainId;
use crate::event::syscall_table::CallId;
use crate::event::{Event, EventKind, SysEnter, SysExit};
use crate::operation::block::BlockOptions;
use crate::operation::context::Observability;
use crate::operation::process::Scope;
use crate::operation::symbols::Symbols;
use crate::operation::tracker::Tracker;
use crate::units::{CpuId, KernelTime, Tid};

/// `loop0`, and a disk that the log does not name (8:0).
const LOOP: DevId = DevId(7 << 20);
const OTHER: DevId = DevId(8 << 20);

fn event(time: u64, tid: i32, kind: EventKind) -> Event {
    let (time, cpu, pid, tid) = (KernelTime(time), CpuId(0), Pid(tid), Tid(tid));
    Event { time, cpu, pid, tid, kind }
}

fn chain(id: u32, pid: i32, kernel: &[u64], user: &[u64]) -> Event {
    let (id, pid, time) = (ChainId(id), Pid(pid), KernelTime(1));
    let (kernel, user) = (kernel.into(), user.into());
    event(1, -1, EventKind::Chain(Box::new(CallChain { id, pid, time, kernel, user })))
}

/// Location of a bio.
struct BioPlace {
    dev: DevId,
    sector: u64,
    sectors: u32,
}

fn place(dev: DevId, sector: u64, sectors: u32) -> BioPlace {
    BioPlace { dev, sector, sectors }
}

/// A bio of this number of sectors that becomes a request and completes 100 ns later.
fn bio(
    time: u64,
    tid: i32,
    comm: &str,
    rwbs: &str,
    place: BioPlace,
    chain: Option<u32>,
) -> Vec<Event> {
    let BioPlace { dev, sector, sectors: nr_sector } = place;
    let at = |point| BlockEvent {
        point,
        dev,
        sector,
        nr_sector,
        error: 0,
        rwbs: Rwbs::new(rwbs.as_bytes()),
        from: None,
        comm: (point == BlockPoint::BioQueue).then(|| Comm::new(comm.as_bytes())),
        chain: chain.map(ChainId).filter(|_| point == BlockPoint::BioQueue),
    };
    let points = [
        (BlockPoint::BioQueue, 0),
        (BlockPoint::GetRq, 1),
        (BlockPoint::Issue, 2),
        (BlockPoint::Complete, 100),
    ];
    points.map(|(point, after)| event(time + after, tid, EventKind::Block(at(point)))).into()
}

fn fold(which: StacksOf, events: Vec<Event>) -> IoStacks {
    let scope = Scope {
        system: true,
        all_requests: true,
        roots: Vec::new(),
        launched: false,
        own: Pid(1),
        children: true,
        excluded: Vec::new(),
    };
    let mut tracker =
        Tracker::new(scope, BlockOptions::default(), Observability::ALL, KernelTime::MIN);
    let mut fold = IoStacks::new(which);
    for event in events {
        tracker.push(event, &mut fold).expect("it cannot fail");
    }
    tracker.finish(KernelTime(1_000_000), &mut fold).expect("it cannot fail");
    fold
}

fn summary() -> Summary {
    let symbol = |pid, address, name: &str, module: &str| Symbol {
        pid: Pid(pid),
        address,
        name: name.into(),
        module: module.into(),
        place: 0x77,
        ..Symbol::default()
    };
    let mut symbols = Symbols::default();
    for (address, name) in
        [(10, "submit_bio"), (20, "vfs_write"), (30, "do_syscall_64"), (11, "submit_bio")]
    {
        symbols.add(symbol(0, address, name, ""));
    }
    symbols.add(symbol(7, 100, "a;b\n", "/bin/x"));
    symbols.add(symbol(7, 200, "", "/lib/libc.so.6"));
    let disk = Disk { dev: "7:0".into(), name: "loop0".into(), ..Disk::default() };
    let chains = Some(CallChainKinds {
        kernel: true,
        user: true,
        stack_bytes: 0,
        calls: true,
        frames_max: 5,
    });
    let header = Header { disks: vec![disk], chains, ..Header::default() };
    Summary { header, symbols, ..Summary::default() }
}

/// Two processes that write through the same functions, one that reads, a thread without a stack,
/// and a disk.
fn some() -> Vec<Event> {
    let chains = [
        chain(0, 7, &[10, 20, 30], &[100, 200, 300]),
        chain(1, 8, &[11, 20, 30], &[]),
        chain(2, 8, &[10, 40], &[]),
    ];
    let bios = [
        bio(1000, 7, "dd", "W", place(LOOP, 0, 8), Some(0)),
        bio(2000, 8, "dd", "W", place(LOOP, 8, 16), Some(1)),
        bio(3000, 8, "c;d 5", "R", place(LOOP, 64, 3), Some(2)),
        bio(4000, 9, "e", "W", place(LOOP, 128, 5), None),
        bio(5000, 9, "e", "D", place(OTHER, 0, 100), Some(1)),
    ];
    chains.into_iter().chain(bios.into_iter().flatten()).collect()
}

const KERNEL: StackOptions = StackOptions { kernel: true, user: false, by: Weight::Bytes };

fn stacks(which: StacksOf, shape: StackOptions) -> Stacks {
    Stacks::new(&fold(which, some()), &summary(), shape)
}

#[track_caller]
fn check(report: &Report, form: TableFormat, expected: &Expect) {
    let mut out = Vec::new();
    report.print(form, crate::text::table::TextStyle::default(), &mut out).expect("memory");
    expected.assert_eq(&String::from_utf8(out).expect("UTF-8"));
}

#[test]
fn for_people() {
    let report = stacks(StacksOf::default(), KERNEL).report(TableFormat::Text, 3);
    check(
        &report,
        TableFormat::Text,
        &expect![[r#"
            All of it
            device or operation  count  read kB  written kB  discarded kB  time ns
            loop0                    4     1.54        14.8             0      400
            8:0                      1        0           0          51.2      100

            8:0
                submit_bio
                vfs_write
                do_syscall_64
                    e
            count  read B  written B  discarded kB  time ns
                1       0          0          51.2      100

            loop0
                submit_bio
                vfs_write
                do_syscall_64
                    dd
            count  read B  written kB  time ns
                2       0        12.3      200

            loop0
                [no stack]
                    e
            count  read B  written kB  time ns
                1       0        2.56      100

            Other stacks
            count  read kB  written B  discarded B  time ns  stacks
                1     1.54          0            0      100  (1 others)

            1 of 5 bios have no stack
            1 of 5 bios have 5 functions or more: the outermost may be missing
            1 of 11 functions in the stacks have no name: shown as [unknown], file+place or address
        "#]],
    );
}

#[test]
fn as_tables() {
    let both = StackOptions { user: true, ..KERNEL };
    let which = StacksOf { by_process: true, calls: false };
    check(
        &stacks(which, both).report(TableFormat::Json, 0),
        TableFormat::Json,
        &expect![[r#"
            {"kind":"stacks","version":1,
            "incomplete":[],
            "by":"bytes",
            "totals":[
            {"count":4,"read_bytes":1536,"written_bytes":14848,"discarded_bytes":0,"time_ns":400,"of":"loop0"},
            {"count":1,"read_bytes":0,"written_bytes":0,"discarded_bytes":51200,"time_ns":100,"of":"8:0"}],
            "stacks":[
            {"count":1,"read_bytes":0,"written_bytes":0,"discarded_bytes":51200,"time_ns":100,"of":"8:0","comm":"e","pid":9,"stack":"do_syscall_64;vfs_write;submit_bio"},
            {"count":1,"read_bytes":0,"written_bytes":8192,"discarded_bytes":0,"time_ns":100,"of":"loop0","comm":"dd","pid":8,"stack":"do_syscall_64;vfs_write;submit_bio"},
            {"count":1,"read_bytes":0,"written_bytes":4096,"discarded_bytes":0,"time_ns":100,"of":"loop0","comm":"dd","pid":7,"stack":"[unknown];libc.so.6+0x77;a\\x3bb\\x0a;do_syscall_64;vfs_write;submit_bio"},
            {"count":1,"read_bytes":0,"written_bytes":2560,"discarded_bytes":0,"time_ns":100,"of":"loop0","comm":"e","pid":9,"stack":null},
            {"count":1,"read_bytes":1536,"written_bytes":0,"discarded_bytes":0,"time_ns":100,"of":"loop0","comm":"c;d 5","pid":8,"stack":"0x28;submit_bio"}],
            "notes":[
            "programs are unwound by frame pointers: in code that was compiled without them functions are missing, and the outermost may be unknown or wrong: --call-graph dwarf finds those, too",
            "1 of 5 bios have no stack",
            "1 of 5 bios have 5 functions or more: the outermost may be missing",
            "3 of 14 functions in the stacks have no name: shown as [unknown], file+place or address"]}
        "#]],
    );
    check(
        &stacks(which, both).report(TableFormat::Csv, 1),
        TableFormat::Csv,
        &expect![[r#"
        table,key,value
        facts,by,bytes
        facts,note,"programs are unwound by frame pointers: in code that was compiled without them functions are missing, and the outermost may be unknown or wrong: --call-graph dwarf finds those, too"
        facts,note,1 of 5 bios have no stack
        facts,note,1 of 5 bios have 5 functions or more: the outermost may be missing
        facts,note,"3 of 14 functions in the stacks have no name: shown as [unknown], file+place or address"

        table,count,read_bytes,written_bytes,discarded_bytes,time_ns,of
        totals,4,1536,14848,0,400,loop0
        totals,1,0,0,51200,100,8:0

        table,count,read_bytes,written_bytes,discarded_bytes,time_ns,of,comm,pid,stack
        stacks,1,0,0,51200,100,8:0,e,9,do_syscall_64;vfs_write;submit_bio
        stacks,4,1536,14848,0,400,(4 others),,,
    "#]],
    );
}

#[test]
fn as_folded_lines() {
    let lines = |shape, by_process| {
        stacks(StacksOf { by_process, calls: false }, shape).folded().join("\n") + "\n"
    };
    let user = StackOptions { kernel: false, user: true, by: Weight::Count };
    let both = StackOptions { kernel: true, user: true, by: Weight::Time };
    let all = [lines(KERNEL, false), lines(user, false), lines(both, true)].join("\n");
    expect![[r#"
        8:0;e;do_syscall_64;vfs_write;submit_bio 51200
        loop0;c\x3bd\x205;0x28;submit_bio 1536
        loop0;dd;do_syscall_64;vfs_write;submit_bio 12288
        loop0;e;[no stack] 2560

        8:0;e 1
        loop0;c\x3bd\x205 1
        loop0;dd 1
        loop0;dd;[unknown];libc.so.6+0x77;a\x3bb\x0a 1
        loop0;e;[no stack] 1

        8:0;e-9;do_syscall_64;vfs_write;submit_bio 100
        loop0;c\x3bd\x205-8;0x28;submit_bio 100
        loop0;dd-7;[unknown];libc.so.6+0x77;a\x3bb\x0a;do_syscall_64;vfs_write;submit_bio 100
        loop0;dd-8;do_syscall_64;vfs_write;submit_bio 100
        loop0;e-9;[no stack] 100
    "#]]
    .assert_eq(&all);
}

/// Fails if a name can be taken for the border of an element or for a weight.
#[test]
fn each_folded_line_is_read_as_it_was_meant() {
    for shape in [
        KERNEL,
        StackOptions { user: true, ..KERNEL },
        StackOptions { by: Weight::Count, ..KERNEL },
    ] {
        let stacks = stacks(StacksOf::default(), shape);
        let sum: u64 = stacks
            .folded()
            .iter()
            .map(|line| {
                let (stack, weight) = line.rsplit_once(' ').expect("a weight");
                assert!(!stack.contains('\n') && stack.matches(';').count() >= 2, "{line}");
                let before = stack.rsplit(' ').next().unwrap_or_default();
                assert!(before == stack || before.parse::<f64>().is_err(), "{line}");
                weight.parse::<u64>().expect("a number")
            })
            .sum();
        assert_eq!(sum, stacks.all.iter().map(|stack| shape.by.of(&stack.sum)).sum::<u64>());
    }
    let mut name = Vec::new();
    element(&mut name, b"thread 17");
    assert_eq!(name, b"thread\\x2017");
}

#[test]
fn a_flame_graph_has_all_functions() {
    let stacks = stacks(StacksOf::default(), KERNEL);
    for reversed in [false, true] {
        let mut svg = Vec::new();
        stacks.flame_graph(reversed, &mut svg).expect("memory");
        let svg = String::from_utf8(svg).expect("UTF-8");
        for name in ["loop0", "8:0", "submit_bio", "vfs_write", "0x28", "[no stack]"] {
            assert!(svg.contains(&format!("<title>{name} (")), "{name}");
        }
        assert!(svg.contains("bytes, 100%") || svg.contains("bytes, 100.00%"));
    }
    let nothing = Stacks::new(&IoStacks::default(), &summary(), KERNEL);
    assert!(nothing.is_nothing() && !stacks.is_nothing());
    assert!(nothing.flame_graph(false, io::sink()).is_err());
}

#[test]
fn stacks_of_system_calls() {
    let call = CallId::by_name("write").expect("a call");
    let mut events = vec![chain(0, 7, &[], &[100, 200])];
    for (number, ret, chain) in [(0_u64, 4099, Some(0)), (1, -9, Some(0)), (2, 23, None)] {
        let enter = SysEnter { call, args: [1, 0, 5000, 0, 0, 0] };
        let exit = SysExit { call, ret, names: None, chain: chain.map(ChainId) };
        events.push(event(1000 + 100 * number, 7, EventKind::SysEnter(enter)));
        events.push(event(1013 + 100 * number, 7, EventKind::SysExit(exit)));
    }
    let which = StacksOf { calls: true, by_process: false };
    let fold = fold(which, events);
    let shape = |by| StackOptions { kernel: false, user: true, by };
    let lines = |by| Stacks::new(&fold, &summary(), shape(by)).folded();
    assert_eq!(
        lines(Weight::Count),
        ["write;[unknown];[no stack] 1", "write;[unknown];libc.so.6+0x77;a\\x3bb\\x0a 2"]
    );
    assert_eq!(
        lines(Weight::Bytes),
        ["write;[unknown];[no stack] 23", "write;[unknown];libc.so.6+0x77;a\\x3bb\\x0a 4099"]
    );
    assert_eq!(
        lines(Weight::Time),
        ["write;[unknown];[no stack] 13", "write;[unknown];libc.so.6+0x77;a\\x3bb\\x0a 26"]
    );
}

#[test]
fn unknown_values_are_shown() {
    let mut without = summary();
    without.header.chains = None;
    let nothing = Stacks::new(&fold(StacksOf::default(), some()), &without, KERNEL);
    assert!(nothing.notes().iter().any(|note| note.starts_with("the log has no stacks")));
    let mut kernel_only = summary();
    kernel_only.header.chains = Some(CallChainKinds { kernel: true, ..CallChainKinds::default() });
    let shape = StackOptions { user: true, ..KERNEL };
    let notes = Stacks::new(&fold(StacksOf::default(), some()), &kernel_only, shape).notes;
    assert!(notes.iter().any(|note| note.contains("--stacks user")), "{notes:?}");
}

/// Fails if operations that a disk does not count are counted, or if unended ones seem to have
/// taken no time.
#[test]
fn unfinished_requests_are_shown_and_dropped_bios_not_counted() {
    let done = bio(1000, 7, "dd", "W", place(LOOP, 0, 8), None);
    let open = bio(2000, 7, "dd", "W", place(LOOP, 8, 8), None).into_iter().take(3);
    // Of a device with requests; this bio did not become one.
    let lonely = bio(3000, 7, "dd", "W", place(LOOP, 64, 8), None).into_iter().take(1);
    let fold = fold(StacksOf::default(), done.into_iter().chain(open).chain(lonely).collect());
    let total = fold.totals[&StackSubject::Device(LOOP)];
    assert_eq!((total.count, total.written, total.time), (2, 2 * 4096, 100));
    assert_eq!((fold.unended, fold.stillborn, fold.commands), (1, 1, 0));
    let notes = Stacks::new(&fold, &summary(), KERNEL).notes;
    assert!(notes.iter().any(|note| note.starts_with("1 of 2 bios did not end")), "{notes:?}");
    assert!(
        notes.iter().any(|note| note.starts_with("1 bios did not become requests")),
        "{notes:?}"
    );
}
