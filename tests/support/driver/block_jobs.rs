//! I/O jobs for block devices, and what the devices are made of: the rows of docs/block-matrix.md.

use std::path::Path;

use crate::support::machine::requirements::Need;

/// One thing to do with a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub name: &'static str,
    kind: JobKind,
}

#[derive(Clone, Copy, Debug)]
enum JobKind {
    /// Options of fio.
    Fio(&'static str),
    /// Writes zeroes, with the blocks kept and given back, and discards.
    Zeroes,
    /// Makes this file system, unpacks a tree in it, removes some of it, and trims.
    FileSystem(&'static str),
}

/// Options that all jobs of fio share.
const COMMON: &str = "--name=job --size=8m --randseed=23 --group_reporting --output-format=terse";

/// The smallest device on which `mkfs.xfs` agrees to work.
pub(crate) const DEVICE_BYTES: u64 = 320 << 20;

const fn fio(name: &'static str, options: &'static str) -> Job {
    Job { name, kind: JobKind::Fio(options) }
}

const fn file_system(name: &'static str) -> Job {
    Job { name, kind: JobKind::FileSystem(name) }
}

/// Job that asks for zeroes. A device that cannot have a kind of them refuses, and is written
/// instead.
pub(crate) const ZEROES: Job = Job { name: "zeroes", kind: JobKind::Zeroes };

/// All of them.
pub(crate) const JOBS: &[Job] = &[
    fio(
        "buffered random writes, fsync",
        "--ioengine=psync --rw=randwrite --bs=4k --fsync=61 --end_fsync=1",
    ),
    fio(
        "buffered writes in a row, fsync",
        "--ioengine=psync --rw=write --bs=64k --fsync=16 --end_fsync=1",
    ),
    fio("buffered reads", "--ioengine=psync --rw=read --bs=4k --invalidate=1"),
    fio(
        "direct, two writers, depth 1",
        "--ioengine=psync --direct=1 --rw=randrw --bs=4k --numjobs=2 --offset_increment=8m",
    ),
    fio(
        "libaio random, depth 32",
        "--ioengine=libaio --direct=1 --iodepth=32 --rw=randrw --bsrange=4k-64k",
    ),
    fio(
        "libaio random, depth 64",
        "--ioengine=libaio --direct=1 --iodepth=64 --rw=randrw --bsrange=4k-64k",
    ),
    fio(
        "libaio in a row, depth 32",
        "--ioengine=libaio --direct=1 --iodepth=32 --iodepth_batch=32 --rw=write --bs=4k",
    ),
    fio(
        "libaio in a row, depth 64",
        "--ioengine=libaio --direct=1 --iodepth=64 --iodepth_batch=64 --rw=rw --bs=4k",
    ),
    fio(
        "io_uring random, depth 32",
        "--ioengine=io_uring --direct=1 --iodepth=32 --rw=randrw --bsrange=4k-64k",
    ),
    fio(
        "io_uring random, depth 64",
        "--ioengine=io_uring --direct=1 --iodepth=64 --rw=randrw --bsrange=4k-64k",
    ),
    fio(
        "io_uring in a row, depth 32",
        "--ioengine=io_uring --direct=1 --iodepth=32 --iodepth_batch=32 --rw=write --bs=4k",
    ),
    fio(
        "io_uring in a row, depth 64",
        "--ioengine=io_uring --direct=1 --iodepth=64 --iodepth_batch=64 --rw=rw --bs=4k",
    ),
    fio(
        "requests of 4 MiB",
        "--ioengine=libaio --direct=1 --iodepth=32 --rw=randrw --bs=4m --size=128m",
    ),
    // Requests at the same place at the same time.
    fio(
        "four writers of the same places",
        "--ioengine=io_uring --direct=1 --iodepth=32 --rw=randrw --bsrange=4k-64k --numjobs=4 --norandommap",
    ),
    fio("trims", "--ioengine=psync --direct=1 --rw=randtrim --bs=64k"),
    file_system("ext4"),
    file_system("xfs"),
    file_system("btrfs"),
];

impl Job {
    /// By its name.
    #[track_caller]
    pub(crate) fn of(name: &str) -> Self {
        let found = JOBS.iter().find(|it| it.name == name);
        *found.unwrap_or_else(|| panic!("there is no job {name}"))
    }

    /// Requirements of the job.
    pub(crate) fn needs(self) -> Vec<Need> {
        match self.kind {
            JobKind::Fio(_) => vec![Need::Fio],
            JobKind::Zeroes => vec![Need::Program("blkdiscard"), Need::Program("fallocate")],
            JobKind::FileSystem("ext4") => vec![Need::Program("mkfs.ext4")],
            JobKind::FileSystem("xfs") => {
                vec![Need::KernelFile("/sys/fs/xfs"), Need::Program("mkfs.xfs")]
            }
            JobKind::FileSystem(_) => {
                vec![Need::KernelFile("/sys/fs/btrfs"), Need::Program("mkfs.btrfs")]
            }
        }
    }

    /// Lines of a shell, which works in a directory of its own.
    pub(crate) fn lines(self, device: &Path) -> String {
        let device = device.display();
        match self.kind {
            JobKind::Fio(options) => format!("fio {COMMON} --filename={device} {options} > fio\n"),
            JobKind::Zeroes => format!(
                "fallocate -p -o 1048576 -l 3145728 {device}
                 blkdiscard -z -o 8388608 -l 1048576 {device}
                 dd if=/dev/zero of={device} bs=64k count=7 conv=fsync,notrunc
                 blkdiscard -o 16777216 -l 2097152 {device}\n"
            ),
            JobKind::FileSystem(file_system) => {
                let force = if file_system == "ext4" { "-q -F" } else { "-q -f" };
                let tree = env!("CARGO_MANIFEST_DIR");
                format!(
                    "tar -C {tree} -cf tree.tar tests
                     mkfs.{file_system} {force} {device}
                     mkdir mounted
                     mount -t {file_system} {device} mounted
                     tar -C mounted -xf tree.tar
                     sync -f mounted
                     rm -r mounted/tests/corpus
                     fstrim mounted
                     # Others may be looking at it.
                     for _ in $(seq 50); do umount mounted && break; sleep 0.1; done
                     rmdir mounted\n"
                )
            }
        }
    }
}
