use super::*;

/// Request for no events.
const NOTHING: PlanRequest<'static> = PlanRequest {
    calls: &[],
    machine: "x86_64",
    own_name: "iotrace:1",
    names_ring: false,
    links: false,
    listens: false,
    lists: false,
    pairs: false,
    exact_args: false,
    programs: false,
    accounting: false,
    block: false,
    extents: false,
    devices: &[],
    uring: false,
    layers: None,
    chains: CallChainRequest { bios: false, calls: false },
    faults: None,
    source: SourceKind::Tracefs,
    system: false,
    excludes: false,
    probes: &[],
};

fn names(calls: &[&str], names_ring: bool) -> Vec<String> {
    let calls: Vec<CallId> = calls.iter().filter_map(|it| CallId::by_name(it)).collect();
    let wanted = PlanRequest {
        calls: &calls,
        names_ring,
        lists: names_ring,
        programs: true,
        source: SourceKind::Perf,
        ..NOTHING
    };
    plan(&wanted).into_iter().map(|it| format!("{} {}", it.name, it.filter)).collect()
}

#[test]
fn a_small_set_is_opened_one_by_one() {
    let expected = ["task_newtask ", "sys_enter_read ", "sys_exit_read "];
    assert_eq!(names(&["read"], true), expected);
}

#[test]
fn a_large_set_shares_the_raw_pair_but_for_opens() {
    let planned = names(&["read", "write", "close", "lseek", "dup", "openat"], true);
    assert_eq!(planned[1], "sys_enter (id>=0&&id<=1)||id==3||id==8||id==32");
    assert_eq!(planned[3], "sys_enter_openat COMM!=\"iotrace:1\"");
    assert!(
        names(&["read", "write", "close", "lseek", "dup", "openat"], false)[1].contains("id==257")
    );
}

#[test]
fn tracefs_needs_no_filter_but_separate_rings() {
    let calls: Vec<CallId> = CallId::all().collect();
    let wanted = PlanRequest {
        calls: &calls,
        names_ring: true,
        lists: true,
        programs: true,
        block: true,
        extents: true,
        uring: true,
        ..NOTHING
    };
    let planned = plan(&wanted);
    let ring = |name: &str| planned.iter().find(|it| it.name == name).map(|it| it.ring);
    assert_eq!(ring("sys_enter_openat"), Some(RingKind::Entries));
    assert_eq!(ring("sys_exit_openat"), Some(RingKind::Names));
    assert_eq!(ring("sys_exit_read"), Some(RingKind::Main));
    assert_eq!(ring("block_rq_complete"), Some(RingKind::Block));
    assert_eq!(ring("io_uring_complete"), Some(RingKind::Block));
    assert!(planned.iter().all(|it| it.filter.is_empty()));
}

#[test]
fn a_probe_that_sees_all_calls_has_the_filter_of_those_with_paths() {
    let probes = ["given_7", "given_nr_7"].map(|it| ("iotrace_7".to_owned(), it.to_owned()));
    let calls = ["read", "rename", "openat"].map(|it| CallId::by_name(it).expect(it));
    let planned = plan(&PlanRequest { calls: &calls, probes: &probes, ..NOTHING });
    let filter =
        |name: &str| planned.iter().find(|it| it.name == name).map(|it| it.filter.as_str());
    assert_eq!(filter("given_7"), Some(""));
    assert_eq!(filter("given_nr_7"), Some("nr==82||nr==257"));
}

#[test]
fn probes_are_in_the_ring_of_the_calls() {
    let probes = [("iotrace_7".to_owned(), "path0_7".to_owned())];
    let calls: Vec<CallId> = CallId::by_name("openat").into_iter().collect();
    let planned = plan(&PlanRequest { calls: &calls, programs: true, probes: &probes, ..NOTHING });
    let rings: Vec<(&str, RingKind)> = planned.iter().map(|it| (&*it.system, it.ring)).collect();
    let main = |it| (it, RingKind::Main);
    // The ends of `execve` and `execveat` are always recorded.
    let syscalls = ["syscalls"; 4];
    let expected = [&["task"][..], &syscalls, &["iotrace_7"]].concat();
    assert_eq!(rings, expected.into_iter().map(main).collect::<Vec<_>>());
}

#[test]
fn the_audit_has_programs_waits_and_core_signals() {
    let calls: Vec<CallId> = CallId::default_set().collect();
    for source in [SourceKind::Perf, SourceKind::Tracefs] {
        let planned =
            |accounting| plan(&PlanRequest { calls: &calls, source, accounting, ..NOTHING });
        let filter = |name: &str| {
            let found = planned(true).into_iter().find(|it| it.name == name);
            found.map(|it| it.filter).unwrap_or_else(|| panic!("{source:?}: {name}"))
        };
        assert_eq!(filter("sched_process_exec"), "");
        assert!(filter("signal_deliver").starts_with("sa_handler==0&&((sig>=3&&sig<=8)||sig==11"));
        if source == SourceKind::Tracefs {
            assert_eq!([filter("sys_exit_wait4"), filter("sys_exit_waitid")], ["ret>0", "ret==0"]);
        } else {
            let waits = "(ret<=0&&(id==59||id==322))||(ret>0&&id==61)||(ret==0&&id==247)";
            assert!(filter("sys_exit").ends_with(waits), "{}", filter("sys_exit"));
        }
        let others = ["sched_process_exec", "signal_deliver", "sys_exit_wait4"];
        assert!(planned(false).iter().all(|it| !others.contains(&&*it.name)));
    }
}

#[test]
fn disks_are_distinguished_by_device_number() {
    let devices = [DevId::new(7, 1), DevId::new(259, 3)];
    assert_eq!(device_filter("block_rq_issue", &devices), "dev==7340033||dev==271581187");
    let remapped = "dev==7340033||old_dev==7340033";
    assert_eq!(device_filter("block_bio_remap", &devices[..1]), remapped);
    assert_eq!(device_filter("block_rq_issue", &[]), "");
}

#[test]
fn only_opens_that_made_a_descriptor_wake_a_reader_of_links() {
    let calls: Vec<CallId> = ["openat", "unlink"].into_iter().filter_map(CallId::by_name).collect();
    let filters = |system| {
        let planned =
            plan(&PlanRequest { calls: &calls, links: true, lists: true, system, ..NOTHING });
        let opens = planned.into_iter().filter(|it| it.name.ends_with("_openat"));
        opens.map(|it| (it.ring.as_str(), it.wakes, it.filter)).collect::<Vec<_>>()
    };
    let expected = |terms: [&str; 3]| {
        let [enter, failed, opened] = terms.map(str::to_owned);
        vec![("main", false, enter), ("main", false, failed), ("names", true, opened)]
    };
    assert_eq!(filters(false), expected(["", "ret<0", "ret>=0"]));
    let not_ours = "COMM!=\"iotrace:1\"";
    let [failed, opened] = ["ret<0", "ret>=0"].map(|it| format!("{it}&&{not_ours}"));
    assert_eq!(filters(true), expected([not_ours, &failed, &opened]));
}

#[test]
fn entries_of_calls_with_names_wake_no_reader() {
    let calls: Vec<CallId> = CallId::by_name("openat").into_iter().collect();
    for (source, ring) in [(SourceKind::Tracefs, "entries"), (SourceKind::Perf, "names")] {
        let planned = plan(&PlanRequest { calls: &calls, names_ring: true, source, ..NOTHING });
        let of = |name: &str| planned.iter().find(|it| it.name == name).expect("planned");
        let [enter, exit] = [of("sys_enter_openat"), of("sys_exit_openat")];
        assert_eq!((enter.ring.as_str(), enter.wakes), (ring, false), "{source:?}");
        assert_eq!((exit.ring.as_str(), exit.wakes), ("names", true), "{source:?}");
    }
}

#[test]
fn calls_that_make_two_descriptors_wake_a_reader() {
    let calls: Vec<CallId> =
        ["pipe2", "socketpair", "read"].into_iter().filter_map(CallId::by_name).collect();
    for source in [SourceKind::Tracefs, SourceKind::Perf, SourceKind::Inherited] {
        let rings = |pairs| {
            let planned = plan(&PlanRequest { calls: &calls, pairs, source, ..NOTHING });
            let of_names = |point: &PlannedTracepoint| {
                let is_named = matches!(point.ring, RingKind::Names | RingKind::Entries);
                is_named.then(|| (point.name.clone(), point.wakes))
            };
            planned.iter().filter_map(of_names).collect::<Vec<_>>()
        };
        let [enter, exit] = ["enter", "exit"].map(|it| (it == "exit", format!("sys_{it}_")));
        let of = |name: &str| [&enter, &exit].map(|it| (format!("{}{name}", it.1), it.0));
        assert_eq!(rings(true), [of("pipe2"), of("socketpair")].concat(), "{source:?}");
        assert_eq!(rings(false), [], "{source:?}");
    }
}

#[test]
fn call_chain_events_have_their_own_ring() {
    let planned = |source, calls: &[&str], chains| {
        let calls: Vec<CallId> = calls.iter().filter_map(|it| CallId::by_name(it)).collect();
        let planned = plan(&PlanRequest {
            calls: &calls,
            names_ring: true,
            block: true,
            chains,
            source,
            ..NOTHING
        });
        let chained = planned.into_iter().filter(|it| it.ring == RingKind::Chains);
        chained.map(|it| format!("{} {}", it.name, it.filter)).collect::<Vec<_>>()
    };
    let bios = CallChainRequest { bios: true, calls: false };
    let both = CallChainRequest { bios: true, calls: true };
    let many = ["read", "write", "pread64", "pwrite64", "fsync", "openat"];
    for source in [SourceKind::Tracefs, SourceKind::Perf] {
        assert_eq!(planned(source, &["read"], CallChainRequest::default()), [""; 0]);
        assert_eq!(planned(source, &["read"], bios), ["block_bio_queue "]);
        let few = ["sys_exit_read ", "block_bio_queue "];
        assert_eq!(planned(source, &["read", "openat"], both), few);
        // The opens go to a ring whose samples wake a thread.
        let found = planned(source, &many, both);
        assert_eq!((found.len(), found[1].as_str()), (2, "block_bio_queue "), "{found:?}");
        assert!(found[0].starts_with("sys_exit (id>=0&&id<=1)||(id>=17&&id<=18)||id==74"));
    }
}

#[test]
fn the_filter_of_the_whole_table_fits_the_kernel() {
    let calls: Vec<CallId> = CallId::all().collect();
    let wanted = PlanRequest {
        calls: &calls,
        own_name: "iotrace:0123456",
        programs: true,
        block: true,
        extents: true,
        uring: true,
        source: SourceKind::Perf,
        system: true,
        ..NOTHING
    };
    // perf_event_set_filter() copies at most a page (kernel/events/core.c).
    assert!(plan(&wanted).iter().all(|it| it.filter.len() < 4096));
}
