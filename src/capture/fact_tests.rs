//! Tests of facts that are written and read again.

use super::*;

fn stack() -> Fact {
    let way = UnwoundStack {
        addresses: [0x7f00_0000_1003, 5].into(),
        ending: StackEnd::Unreadable,
        is_guessed: true,
    };
    Fact::Stack(Box::new(UserStack { number: 7, pid: Pid(3), way }))
}

fn samples() -> Vec<Fact> {
    vec![
        Fact::Name {
            tid: Tid(7),
            cpu: CpuId(1),
            record_time: KernelTime(100),
            of: NameOf::Link,
            begin: KernelTime(101),
            end: KernelTime(102),
            errno: 0,
            address: 0,
            stat: Some(FileStat { mode: 0o100_644, dev: DevId::new(8, 1), ino: 12, size: 5 }),
            bytes: b"/tmp/\xff".to_vec(),
        },
        Fact::Task {
            time: KernelTime(1),
            pid: Pid(2),
            tid: Tid(3),
            ppid: Pid(1),
            comm: b"tar".to_vec(),
        },
        Fact::Fd {
            begin: KernelTime(5),
            end: KernelTime(6),
            pid: Pid(2),
            fd: Fd(3),
            flags: 0o100_002,
            position: 4099,
            shared: true,
            stat: None,
            link: b"/data".to_vec(),
        },
        Fact::Opened {
            tid: Tid(3),
            since: KernelTime(4),
            until: KernelTime(8),
            end: KernelTime(9),
            errno: 18,
            stat: Some(FileStat { mode: 0o100_600, dev: DevId::new(8, 2), ino: 13, size: 0 }),
            bytes: b"/data/\xff".to_vec(),
        },
        Fact::Symbol(Box::new(Symbol {
            pid: Pid(3),
            address: 0x7f00_0000_1003,
            since: KernelTime(7),
            name: b"main".to_vec(),
            offset: 3,
            module: b"/bin/true".to_vec(),
            place: 0x1003,
            build_id: vec![0xab, 0xcd],
        })),
        stack(),
        Fact::Unwound(vec![
            UnwoundHit { time: KernelTime(5), tid: Tid(4), stack: 7 },
            UnwoundHit { time: KernelTime(6), tid: Tid(5), stack: 8 },
        ]),
        Fact::User { time: KernelTime(8), pid: Pid(3), user: 1000 },
        Fact::Text {
            time: KernelTime(9),
            which: Text::MOUNTINFO,
            pid: Pid(0),
            text: b"22 1 0:5 / /".to_vec(),
        },
    ]
}

#[test]
fn written_values_are_read_back() {
    let mut frame = FactsFrame::default();
    samples().iter().for_each(|it| frame.push(it));
    let bytes = frame.bytes;
    assert_eq!(facts(&bytes).collect::<Vec<_>>(), samples());
    for end in 0..bytes.len() {
        let read: Vec<_> = facts(&bytes[..end]).collect();
        assert_eq!(read, samples()[..read.len()], "prefix of {end} bytes");
    }
}

#[test]
fn unknown_kinds_are_passed_over() {
    let bytes = [99u16.to_le_bytes().to_vec(), 3u32.to_le_bytes().to_vec(), vec![1, 2, 3]];
    let mut frame = FactsFrame { bytes: bytes.concat(), ..FactsFrame::default() };
    let task = samples().swap_remove(1);
    frame.push(&task);
    assert_eq!(facts(&frame.bytes).collect::<Vec<_>>(), [task]);
}

fn name(of: NameOf, bytes: &[u8]) -> Fact {
    let Some(Fact::Name { tid, cpu, record_time, begin, end, errno, address, stat, .. }) =
        samples().into_iter().next()
    else {
        unreachable!("the first sample is a name")
    };
    let bytes = bytes.to_vec();
    Fact::Name { tid, cpu, record_time, of, begin, end, errno, address, stat, bytes }
}

#[test]
fn name_of_an_older_version_is_read() {
    let fact = name(NameOf::Link, b"/data/a");
    let mut body = FactBody(Vec::new());
    body.i32(7).u32(1).u64(100).u8(1).u64(101).u64(102).i32(0);
    let Fact::Name { stat, .. } = &fact else { unreachable!("a name") };
    body.stat(stat.as_ref()).bytes(b"/data/a").u64(0);
    let mut whole = FactBody(Vec::new());
    whole.u16(kind::WHOLE_NAME).bytes(&body.0);
    assert_eq!(facts(&whole.0).collect::<Vec<_>>(), [fact]);
}

#[test]
fn a_name_that_has_more_of_the_link_than_it_is_long_is_passed_over() {
    let mut frame = FactsFrame::default();
    frame.push(&name(NameOf::Link, b"/data/a"));
    frame.push(&name(NameOf::Argument, b"/data/b"));
    let links_only = facts(&frame.bytes).count();
    let front = 6_u16.to_le_bytes();
    let at = frame.bytes.windows(2).rposition(|it| it == front).expect("front of the second");
    frame.bytes[at] = 8;
    assert_eq!((links_only, facts(&frame.bytes).count()), (2, 1));
}

proptest::proptest! {
    #[test]
    fn any_names_in_a_row(names in proptest::collection::vec(("[ab/]{0,6}", proptest::prelude::any::<bool>()), 0..12)) {
        let link = |is_link: bool| if is_link { NameOf::Link } else { NameOf::Argument };
        let written: Vec<Fact> = names.iter().map(|(it, is_link)| name(link(*is_link), it.as_bytes())).collect();
        let mut frame = FactsFrame::default();
        written.iter().for_each(|it| frame.push(it));
        proptest::prop_assert_eq!(facts(&frame.bytes).collect::<Vec<_>>(), written);
    }
}
