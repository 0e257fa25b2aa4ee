use super::*;
use crate::capture::fact::{StackEnd, Text};
use crate::sys::cancellation::testing::{ended_by, endless};
use crate::sys::sandboxed_helper::HelperFailure;
use crate::tracer::executable_mappings;

/// Runs this test program as a helper.
#[test]
#[ignore = "run by a_stack_of_our_own_functions_leads_to_the_outermost_one"]
fn helper() {
    helper_main::answer().expect("there is a question");
}

/// Runs a helper that answers for the first two samples of a question and then dies.
#[test]
#[ignore = "run by stacks_of_a_dead_helper_are_lost_and_reported"]
fn dies() {
    use std::io::Write;
    sandboxed_helper::limit(&helper_main::BOUNDS).expect("it is allowed");
    let (question, mut socket) =
        sandboxed_helper::received_question().expect("there is a question");
    let question = StacksQuestion::decode(&question).expect("a question");
    let stacks = question.events.iter().filter(|it| matches!(it, MemoryEvent::Stack(_)));
    for _ in stacks.take(2) {
        let way =
            UnwoundStack { addresses: [7].into(), ending: StackEnd::Outermost, is_guessed: false };
        socket.write_all(&protocol::encode_way(&way)).expect("the tracer listens");
    }
    std::process::abort();
}

fn hit(time: u64) -> StackSample {
    let sampled =
        SampledStack { registers: FollowedRegisters::default(), stack: Vec::new(), is_full: true };
    StackSample { time: KernelTime(time), tid: Tid(1), sampled }
}

#[test]
fn stacks_of_a_dead_helper_are_lost_and_reported() {
    const DIES: &[&str] = &["--exact", "tracer::unwinding::tests::dies", "--ignored"];
    let mut seen = SeenChains::default();
    let mut unwinding = Unwinding::new(&mut seen, DIES, helper_main::BOUNDS, endless());
    // The answers cover both samples of the first process, two of three of the second, and one and
    // then one of the third.
    let waiting = |times: &[u64]| PendingSamples {
        hits: times.iter().map(|it| hit(*it)).collect(),
        bytes: 0,
    };
    for (pid, times) in [(1, &[11, 10][..]), (2, &[10, 11, 12]), (3, &[10])] {
        unwinding.waiting.insert(Pid(pid), waiting(times));
    }
    unwinding.query_all();
    // The process that killed the helper is not tried again.
    unwinding.waiting.insert(Pid(2), waiting(&[13, 14]));
    unwinding.waiting.insert(Pid(3), waiting(&[13]));
    unwinding.query_all();
    let (facts, doubts) = unwinding.finish();
    let Some(Fact::Unwound(hits)) = facts.last() else { panic!("{facts:?}") };
    let hits: Vec<_> = hits.iter().map(|it| (it.time.0, it.stack)).collect();
    assert_eq!(hits, [(10, 0), (10, 1), (10, 2), (11, 0), (11, 1), (13, 2)]);
    assert_eq!(facts.len(), 4);
    let why = "it took too much memory, or is damaged (SIGABRT)";
    assert_eq!(doubts, [format!("3 stacks of programs were not unwound: {why}")]);
}

#[test]
fn abandoned_stacks_are_lost_and_reported() {
    let mut seen = SeenChains::default();
    let mut unwinding =
        Unwinding::new(&mut seen, HELPER, helper_main::BOUNDS, ended_by(libc::SIGINT));
    for pid in [1, 2] {
        let hits = vec![hit(10), hit(11)];
        unwinding.waiting.insert(Pid(pid), PendingSamples { hits, bytes: 0 });
    }
    unwinding.query_all();
    let why = HelperFailure::NotWaitedFor.to_string();
    let expected = vec![format!("4 stacks of programs were not unwound: {why}")];
    assert_eq!(unwinding.finish(), (Vec::new(), expected));
}

#[test]
fn stacks_are_bounded() {
    let mut seen = SeenChains::default();
    let mut unwinding = Unwinding::new(&mut seen, HELPER, helper_main::BOUNDS, endless());
    let way = |address| UnwoundStack {
        addresses: [address].into(),
        ending: StackEnd::Outermost,
        is_guessed: false,
    };
    unwinding.found(Pid(1), &hit(1), way(1));
    unwinding.words = WORDS_MAX;
    unwinding.found(Pid(1), &hit(2), way(2));
    unwinding.found(Pid(1), &hit(3), way(1));
    let (facts, doubts) = unwinding.finish();
    assert_eq!(facts.len(), 2);
    assert_eq!(
        doubts,
        ["1 stacks of programs were not unwound: there were too many different ones"]
    );
}

#[test]
fn a_stack_of_our_own_functions_leads_to_the_outermost_one() {
    let (sampled, expected) = unwinder::tests::called_at_their_beginnings();
    let mut seen = SeenChains::default();
    let text = std::fs::read("/proc/self/maps").expect("our own");
    let (pid, time) = (Pid(std::process::id().cast_signed()), KernelTime(5));
    seen.note_fact(&Fact::Text { time, which: Text::MAPS, pid, text });
    let mut unwinding = Unwinding::new(&mut seen, HELPER, helper_main::BOUNDS, endless());
    let hits = vec![StackSample { time: KernelTime(9), tid: Tid(1), sampled }];
    unwinding.waiting.insert(pid, PendingSamples { hits, bytes: 0 });
    unwinding.query_all();
    let (facts, doubts) = unwinding.finish();
    assert_eq!(doubts, Vec::<String>::new());
    let Some(Fact::Stack(stack)) = facts.first() else { panic!("{facts:?}") };
    let expected =
        UnwoundStack { addresses: expected.into(), ending: StackEnd::Outermost, is_guessed: false };
    assert_eq!(stack.way, expected);
}

#[test]
fn history_precedes_later_events() {
    let mut seen = SeenChains::default();
    let changes = [(7, 10, "map /a"), (7, 20, "exec"), (7, 22, "map [vdso]"), (7, 30, "map /b")];
    seen.code = executable_mappings::made(&changes);
    let unwinding = Unwinding::new(&mut seen, HELPER, helper_main::BOUNDS, endless());
    let question = unwinding.question(Pid(7), &[hit(15), hit(25)]);
    let shown = |event: &MemoryEvent| match event {
        MemoryEvent::Map(_, mapped) => format!("map {:?}", mapped.file),
        MemoryEvent::Clear => "clear".into(),
        MemoryEvent::Stack(_) => "stack".into(),
    };
    let shown: Vec<String> = question.events.iter().map(shown).collect();
    assert_eq!(shown, ["map Some(0)", "stack", "clear", "map None", "stack"]);
    let places: Vec<_> = question.files.iter().map(|it| it.mapped).collect();
    assert_eq!(places, [(0x1000, 0x2000)]);
}

/// Fails if samples of two processes that had the same number are put into one question.
#[test]
fn each_process_of_a_reused_pid_is_queried_separately() {
    const ONE: &[&str] = &["--exact", "tracer::unwinding::tests::one", "--ignored"];
    let mut seen = SeenChains::default();
    seen.code = executable_mappings::made(&[(7, 10, "born 1"), (7, 20, "born 1"), (7, 21, "exec")]);
    let mut unwinding = Unwinding::new(&mut seen, ONE, helper_main::BOUNDS, endless());
    let hits = [25, 5, 15, 16, 20].map(hit).into();
    unwinding.waiting.insert(Pid(7), PendingSamples { hits, bytes: 0 });
    unwinding.query_all();
    let (facts, doubts) = unwinding.finish();
    assert_eq!(doubts, Vec::<String>::new());
    // The address that the helper returns is the number of stacks in its question.
    let counts = facts.iter().filter_map(|fact| match fact {
        Fact::Stack(stack) => Some(stack.way.addresses[0]),
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [1, 2]);
    let Some(Fact::Unwound(hits)) = facts.last() else { panic!("{facts:?}") };
    let hits: Vec<_> = hits.iter().map(|it| (it.time.0, it.stack)).collect();
    assert_eq!(hits, [(5, 0), (15, 1), (16, 1), (20, 1), (25, 1)]);
}

/// Runs a helper that returns for each sample the number of stacks in its question.
#[test]
#[ignore = "run by each_process_of_a_reused_pid_is_queried_separately"]
fn one() {
    use std::io::Write;
    let (question, mut socket) =
        sandboxed_helper::received_question().expect("there is a question");
    let question = StacksQuestion::decode(&question).expect("a question");
    let stacks = question.events.iter().filter(|it| matches!(it, MemoryEvent::Stack(_)));
    let count = stacks.count();
    let (addresses, ending) = ([count as u64].into(), StackEnd::Outermost);
    let way = protocol::encode_way(&UnwoundStack { addresses, ending, is_guessed: false });
    socket.write_all(&way.repeat(count)).expect("the tracer listens");
}
