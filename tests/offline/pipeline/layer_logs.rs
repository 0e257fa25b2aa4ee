//! Layers at work inside system calls: recorded logs of work with known counts.

use std::collections::BTreeMap;

use iotrace_perf::analysis::latency::{Latency, LatencyLayer, LatencyOptions};
use iotrace_perf::analysis::layer_split::LAYERS;
use iotrace_perf::event::layer::Layer as Inside;

use super::{names, read, run};

const ALL: LatencyOptions =
    LatencyOptions { syscalls: true, vfs: true, fs: true, block: true, queued: false, unit_ns: 1 };

/// Number of calls of each function, by layer and name.
fn counts(log: &str) -> BTreeMap<(&'static str, String), u64> {
    let (summary, _, fold) = run(&read(log, "iocap"), Latency::new(ALL));
    let books = summary.ledger.spans;
    assert_eq!((books.without_begin, books.without_end, books.left_out), (0, 0, 0), "{log}");
    let inside = |layer: LatencyLayer| matches!(layer, LatencyLayer::Inside(_));
    let rows = fold.rows().into_iter().filter(|it| inside(it.0.0));
    rows.map(|((layer, what, _), it)| ((layer.as_str(), what), it.spread.count())).collect()
}

#[track_caller]
fn check(log: &str, expected: &[(&'static str, &str, u64)]) {
    let counts = counts(log);
    for &(layer, what, count) in expected {
        let found = counts.get(&(layer, what.to_owned())).copied();
        assert_eq!(found, Some(count), "{log}: {what} in {counts:?}");
    }
    let of_layer = |layer: &str| counts.keys().filter(|it| it.0 == layer).count();
    for layer in ["vfs", "fs"] {
        let named = expected.iter().filter(|it| it.0 == layer).count();
        assert_eq!(of_layer(layer), named, "{log}: {counts:?}");
    }
}

/// 18 writes, of them 7 direct; 16 reads, of them 3 direct; 5 syncs; 2 opens
/// (`tests/programs/layers.c`).
#[test]
fn each_call_was_seen_in_each_layer() {
    check(
        "v2/layers-kprobe",
        &[
            ("vfs", "vfs_read", 16),
            ("vfs", "vfs_write", 18),
            ("vfs", "vfs_open", 2),
            ("vfs", "vfs_fsync_range", 5),
            ("fs", "ext4_file_read_iter", 16),
            ("fs", "ext4_file_write_iter", 18),
            ("fs", "ext4_file_open", 2),
            ("fs", "ext4_sync_file", 5),
            ("cache", "get_pages", 13),
        ],
    );
    check(
        "v2/layers",
        &[
            ("fs", "ext4_da_write", 11),
            ("fs", "ext4_sync_file", 5),
            ("fs", "ext4_writepages", 15),
            ("fs", "iomap_dio_rw", 10),
            ("cache", "get_pages", 13),
        ],
    );
}

/// Layers lie in each other, so with probes all of a read is in the VFS, nearly all of that in the
/// file system, and so on.
#[test]
fn time_of_a_call_goes_through_its_layers() {
    let (_, _, fold) = run(&read("v2/layers-kprobe", "iocap"), Latency::new(ALL));
    let of = |call: &str| {
        let splits = fold.splits();
        let found = splits.iter().find(|it| it.0.0.call().name == call);
        let split = found.unwrap_or_else(|| panic!("{call} is there")).1;
        let ns: BTreeMap<&str, u64> =
            LAYERS.iter().map(|it| it.as_str()).zip(split.layers).collect();
        (*split, ns)
    };
    let (reads, layers) = of("pread64");
    assert_eq!(reads.count, 16);
    // Between the entry of the call and that of the first probe there is hardly anything.
    assert!(reads.rest() * 10 < reads.ns, "{reads:?}");
    for layer in ["vfs", "fs", "cache", "queue", "device"] {
        assert!(layers[layer] > 0, "{layer}: {layers:?}");
    }
    let (_, layers) = of("fsync");
    for layer in [Inside::Vfs, Inside::Fs, Inside::Journal, Inside::Queue, Inside::Device] {
        assert!(layers[layer.as_str()] > 0, "{layer:?}: {layers:?}");
    }
    let (closes, layers) = of("close");
    assert_eq!((closes.count, layers.values().sum::<u64>()), (2, 0));
}

#[test]
fn layer_times_add_up_to_the_call_time() {
    let mut calls = 0;
    for name in names("iocap") {
        let (_, totals, fold) = run(&read(&name, "iocap"), Latency::new(ALL));
        for (call, its) in totals.calls() {
            let splits = fold.splits();
            let classes = splits.iter().filter(|it| it.0.0 == call).map(|it| it.1);
            let mut sum = (0, 0);
            for split in classes {
                sum = (sum.0 + split.count, sum.1 + split.ns);
                let layers: u64 = split.layers.iter().sum();
                assert_eq!(split.rest() + layers, split.ns, "{name}: {split:?}");
            }
            assert_eq!(sum, (its.count, its.time_ns), "{name}");
            calls += sum.0;
        }
    }
    assert!(calls > 5_000, "{calls}");
}
