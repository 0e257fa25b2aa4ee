//! Rows of the table: every system call that can be recorded.
//!
//! Numbers are those of `arch/x86/entry/syscalls/syscall_64.tbl` and
//! `include/uapi/asm-generic/unistd.h`. Names are those of the tracepoints (`newstat`, where the C
//! library has `stat`). Arguments are those of the `SYSCALL_DEFINE`s. `exit` and `exit_group` are
//! missing: they have no exit, and the end of a task has a record of its own.

use super::syscall_table::call::{Call, O_CLOEXEC, row};
use super::syscall_table::class::CallClass as C;
use super::syscall_table::role::Role;
use super::syscall_table::role::Role::{
    Address, BufferCount, Buffers, Cloexec, CloneFlags, Command, CommandArg, Count, DirFd, DirFd2,
    DupFlags, Fd, Fd2, How, IoEvents, Iocbs, LastFd, Length, MakesBy, MakesIf, MapFlags,
    MemoryFlags, Message, Messages, MountFlags, Offset, OffsetPtr, OffsetPtr2, OldCount,
    Opaque as __, OpenFlags, Pair, Path, Path2, RangeFlags, RegisterCount, RegisterOp, Registered,
    RemoveFlags, RenameFlags, RwFlags, TakenFd, Whence,
};

/// Close-on-exec flag of most calls.
const CX: Role = Cloexec(O_CLOEXEC);

/// Commands of `bpf` whose result is a descriptor (`enum bpf_cmd` in `include/uapi/linux/bpf.h`):
/// `MAP_CREATE`, `PROG_LOAD`, `OBJ_GET`, `PROG_GET_FD_BY_ID`, `MAP_GET_FD_BY_ID`,
/// `RAW_TRACEPOINT_OPEN`, `BTF_LOAD`, `BTF_GET_FD_BY_ID`, `LINK_CREATE`, `LINK_GET_FD_BY_ID`,
/// `ENABLE_STATS`, `ITER_CREATE`, `TOKEN_CREATE`. All of these descriptors are close-on-exec.
const BPF_MAKES: Role = MakesBy(
    1 << 0
        | 1 << 5
        | 1 << 7
        | 1 << 13
        | 1 << 14
        | 1 << 17
        | 1 << 18
        | 1 << 19
        | 1 << 28
        | 1 << 30
        | 1 << 32
        | 1 << 33
        | 1 << 36,
);

/// Flag `SECCOMP_FILTER_FLAG_NEW_LISTENER`, with which `seccomp` makes a descriptor.
const NEW_LISTENER: Role = MakesIf(8, 8);

/// Value -1, with which a descriptor is made; otherwise the given one gets another mask.
const NO_FD: Role = MakesIf(u32::MAX, u32::MAX);

/// System calls that can be recorded, by their numbers on x86-64.
#[rustfmt::skip]
pub const CALLS: &[Call] = &[
    row("read",              0, Some(63),  C::Read,       [Fd, __, Count, __, __, __]),
    row("write",             1, Some(64),  C::Write,      [Fd, __, Count, __, __, __]),
    row("open",              2, None,      C::Open,       [Path, OpenFlags, __, __, __, __]),
    row("close",             3, Some(57),  C::Close,      [Fd, __, __, __, __, __]),
    row("newstat",           4, None,      C::Stat,       [Path, __, __, __, __, __]),
    row("newfstat",          5, Some(80),  C::Stat,       [Fd, __, __, __, __, __]),
    row("newlstat",          6, None,      C::Stat,       [Path, __, __, __, __, __]),
    row("lseek",             8, Some(62),  C::Seek,       [Fd, Offset, Whence, __, __, __]),
    row("mmap",              9, Some(222), C::Map,        [__, Count, __, MapFlags, Fd, Offset]),
    row("munmap",           11, Some(215), C::Map,        [Address, Count, __, __, __, __]),
    row("ioctl",            16, Some(29),  C::Ioctl,      [Fd, __, __, __, __, __]),
    row("pread64",          17, Some(67),  C::Read,       [Fd, __, Count, Offset, __, __]),
    row("pwrite64",         18, Some(68),  C::Write,      [Fd, __, Count, Offset, __, __]),
    row("readv",            19, Some(65),  C::Read,       [Fd, Buffers, BufferCount, __, __, __]),
    row("writev",           20, Some(66),  C::Write,      [Fd, Buffers, BufferCount, __, __, __]),
    row("access",           21, None,      C::Stat,       [Path, __, __, __, __, __]),
    row("pipe",             22, None,      C::MakePair,   [Pair, __, __, __, __, __]),
    row("mremap",           25, Some(216), C::Map,        [Address, OldCount, Count, MapFlags, __, __]),
    row("msync",            26, Some(227), C::Sync,       [Address, Count, __, __, __, __]),
    row("madvise",          28, Some(233), C::Map,        [Address, Count, __, __, __, __]),
    row("dup",              32, Some(23),  C::Dup,        [Fd, __, __, __, __, __]),
    row("dup2",             33, None,      C::Dup,        [Fd, Fd2, __, __, __, __]),
    row("sendfile64",       40, Some(71),  C::Transfer,   [Fd2, Fd, OffsetPtr, Count, __, __]),
    row("socket",           41, Some(198), C::Make("socket:[?]"), [__, CX, __, __, __, __]),
    row("connect",          42, Some(203), C::Socket,     [Fd, __, __, __, __, __]),
    row("accept",           43, Some(202), C::Make("socket:[?]"), [__, __, __, __, __, __]),
    row("sendto",           44, Some(206), C::Socket,     [Fd, __, Count, __, __, __]),
    row("recvfrom",         45, Some(207), C::Socket,     [Fd, __, Count, __, __, __]),
    row("sendmsg",          46, Some(211), C::Socket,     [Fd, __, __, __, __, __]),
    row("recvmsg",          47, Some(212), C::Socket,     [Fd, Message, __, __, __, __]),
    row("socketpair",       53, Some(199), C::MakePair,   [__, CX, __, Pair, __, __]),
    row("clone",            56, Some(220), C::Process,    [__, __, __, __, __, __]),
    row("fork",             57, None,      C::Process,    [__, __, __, __, __, __]),
    row("vfork",            58, None,      C::Process,    [__, __, __, __, __, __]),
    // The memory of its path is gone at its exit.
    row("execve",           59, Some(221), C::Process,    [Path, __, __, __, __, __]),
    row("fcntl",            72, Some(25),  C::Control,    [Fd, Command, CommandArg, __, __, __]),
    row("flock",            73, Some(32),  C::Lock,       [Fd, __, __, __, __, __]),
    row("fsync",            74, Some(82),  C::Sync,       [Fd, __, __, __, __, __]),
    row("fdatasync",        75, Some(83),  C::Sync,       [Fd, __, __, __, __, __]),
    row("truncate",         76, Some(45),  C::Resize,     [Path, Length, __, __, __, __]),
    row("ftruncate",        77, Some(46),  C::Resize,     [Fd, Length, __, __, __, __]),
    row("getdents",         78, None,      C::List,       [Fd, __, Count, __, __, __]),
    row("chdir",            80, Some(49),  C::Place,      [Path, __, __, __, __, __]),
    row("fchdir",           81, Some(50),  C::Place,      [Fd, __, __, __, __, __]),
    row("rename",           82, None,      C::Rename,     [Path, Path2, __, __, __, __]),
    row("mkdir",            83, None,      C::Name,       [Path, __, __, __, __, __]),
    row("rmdir",            84, None,      C::Remove,     [Path, __, __, __, __, __]),
    row("creat",            85, None,      C::Open,       [Path, __, __, __, __, __]),
    row("link",             86, None,      C::Name,       [Path, Path2, __, __, __, __]),
    row("unlink",           87, None,      C::Remove,     [Path, __, __, __, __, __]),
    row("symlink",          88, None,      C::Name,       [Path2, Path, __, __, __, __]),
    row("readlink",         89, None,      C::Stat,       [Path, __, Count, __, __, __]),
    row("chmod",            90, None,      C::Attribute,  [Path, __, __, __, __, __]),
    row("fchmod",           91, Some(52),  C::Attribute,  [Fd, __, __, __, __, __]),
    row("chown",            92, None,      C::Attribute,  [Path, __, __, __, __, __]),
    row("fchown",           93, Some(55),  C::Attribute,  [Fd, __, __, __, __, __]),
    row("lchown",           94, None,      C::Attribute,  [Path, __, __, __, __, __]),
    row("setuid",          105, Some(146), C::User,       [__, __, __, __, __, __]),
    row("setreuid",        113, Some(145), C::User,       [__, __, __, __, __, __]),
    row("setresuid",       117, Some(147), C::User,       [__, __, __, __, __, __]),
    row("utime",           132, None,      C::Attribute,  [Path, __, __, __, __, __]),
    row("mknod",           133, None,      C::Name,       [Path, __, __, __, __, __]),
    row("statfs",          137, Some(43),  C::Stat,       [Path, __, __, __, __, __]),
    row("fstatfs",         138, Some(44),  C::Stat,       [Fd, __, __, __, __, __]),
    row("pivot_root",      155, Some(41),  C::Mount,      [Path, Path2, __, __, __, __]),
    row("chroot",          161, Some(51),  C::Root,       [Path, __, __, __, __, __]),
    row("sync",            162, Some(81),  C::Sync,       [__, __, __, __, __, __]),
    row("mount",           165, Some(40),  C::Mount,      [__, Path, __, MountFlags, __, __]),
    row("umount",          166, Some(39),  C::Mount,      [Path, __, __, __, __, __]),
    row("readahead",       187, Some(213), C::Advise,     [Fd, Offset, Count, __, __, __]),
    row("setxattr",        188, Some(5),   C::Attribute,  [Path, __, __, __, __, __]),
    row("lsetxattr",       189, Some(6),   C::Attribute,  [Path, __, __, __, __, __]),
    row("fsetxattr",       190, Some(7),   C::Attribute,  [Fd, __, __, __, __, __]),
    row("getxattr",        191, Some(8),   C::Stat,       [Path, __, __, __, __, __]),
    row("lgetxattr",       192, Some(9),   C::Stat,       [Path, __, __, __, __, __]),
    row("fgetxattr",       193, Some(10),  C::Stat,       [Fd, __, __, __, __, __]),
    row("listxattr",       194, Some(11),  C::Stat,       [Path, __, __, __, __, __]),
    row("llistxattr",      195, Some(12),  C::Stat,       [Path, __, __, __, __, __]),
    row("flistxattr",      196, Some(13),  C::Stat,       [Fd, __, __, __, __, __]),
    row("removexattr",     197, Some(14),  C::Attribute,  [Path, __, __, __, __, __]),
    row("lremovexattr",    198, Some(15),  C::Attribute,  [Path, __, __, __, __, __]),
    row("fremovexattr",    199, Some(16),  C::Attribute,  [Fd, __, __, __, __, __]),
    row("io_setup",        206, Some(0),   C::Async,      [__, __, __, __, __, __]),
    row("io_destroy",      207, Some(1),   C::Async,      [__, __, __, __, __, __]),
    row("io_getevents",    208, Some(4),   C::Async,      [__, __, __, IoEvents, __, __]),
    row("io_submit",       209, Some(2),   C::Async,      [__, __, Iocbs, __, __, __]),
    row("io_cancel",       210, Some(3),   C::Async,      [__, __, __, __, __, __]),
    row("epoll_create",    213, None,      C::Make("anon_inode:[eventpoll]"), [__, __, __, __, __, __]),
    row("getdents64",      217, Some(61),  C::List,       [Fd, __, Count, __, __, __]),
    row("fadvise64",       221, Some(223), C::Advise,     [Fd, Offset, Count, __, __, __]),
    row("utimes",          235, None,      C::Attribute,  [Path, __, __, __, __, __]),
    row("mq_open",         240, Some(180), C::Make("mqueue"), [__, __, __, __, __, __]).closed_by_exec(),
    row("inotify_init",    253, None,      C::Make("anon_inode:inotify"), [__, __, __, __, __, __]),
    row("openat",          257, Some(56),  C::Open,       [DirFd, Path, OpenFlags, __, __, __]),
    row("mkdirat",         258, Some(34),  C::Name,       [DirFd, Path, __, __, __, __]),
    row("mknodat",         259, Some(33),  C::Name,       [DirFd, Path, __, __, __, __]),
    row("fchownat",        260, Some(54),  C::Attribute,  [DirFd, Path, __, __, __, __]),
    row("futimesat",       261, None,      C::Attribute,  [DirFd, Path, __, __, __, __]),
    row("newfstatat",      262, Some(79),  C::Stat,       [DirFd, Path, __, __, __, __]),
    row("unlinkat",        263, Some(35),  C::Remove,     [DirFd, Path, RemoveFlags, __, __, __]),
    row("renameat",        264, Some(38),  C::Rename,     [DirFd, Path, DirFd2, Path2, __, __]),
    row("linkat",          265, Some(37),  C::Name,       [DirFd, Path, DirFd2, Path2, __, __]),
    row("symlinkat",       266, Some(36),  C::Name,       [Path2, DirFd, Path, __, __, __]),
    row("readlinkat",      267, Some(78),  C::Stat,       [DirFd, Path, __, Count, __, __]),
    row("fchmodat",        268, Some(53),  C::Attribute,  [DirFd, Path, __, __, __, __]),
    row("faccessat",       269, Some(48),  C::Stat,       [DirFd, Path, __, __, __, __]),
    row("unshare",         272, Some(97),  C::Unshare,    [CloneFlags, __, __, __, __, __]),
    row("splice",          275, Some(76),  C::Transfer,   [Fd, OffsetPtr, Fd2, OffsetPtr2, Count, __]),
    row("tee",             276, Some(77),  C::Pipe,       [Fd, Fd2, Count, __, __, __]),
    row("sync_file_range", 277, Some(84),  C::Sync,       [Fd, Offset, Count, __, __, __]),
    row("vmsplice",        278, Some(75),  C::Pipe,       [Fd, Buffers, BufferCount, __, __, __]),
    row("utimensat",       280, Some(88),  C::Attribute,  [DirFd, Path, __, __, __, __]),
    row("signalfd",        282, None,      C::Make("anon_inode:[signalfd]"), [NO_FD, __, __, __, __, __]),
    row("timerfd_create",  283, Some(85),  C::Make("anon_inode:[timerfd]"), [__, CX, __, __, __, __]),
    row("eventfd",         284, None,      C::Make("anon_inode:[eventfd]"), [__, __, __, __, __, __]),
    row("fallocate",       285, Some(47),  C::Resize,     [Fd, __, Offset, Count, __, __]),
    row("accept4",         288, Some(242), C::Make("socket:[?]"), [__, __, __, CX, __, __]),
    row("signalfd4",       289, Some(74),  C::Make("anon_inode:[signalfd]"), [NO_FD, __, __, CX, __, __]),
    row("eventfd2",        290, Some(19),  C::Make("anon_inode:[eventfd]"), [__, CX, __, __, __, __]),
    row("epoll_create1",   291, Some(20),  C::Make("anon_inode:[eventpoll]"), [CX, __, __, __, __, __]),
    row("dup3",            292, Some(24),  C::Dup,        [Fd, Fd2, DupFlags, __, __, __]),
    row("pipe2",           293, Some(59),  C::MakePair,   [Pair, CX, __, __, __, __]),
    row("inotify_init1",   294, Some(26),  C::Make("anon_inode:inotify"), [CX, __, __, __, __, __]),
    row("preadv",          295, Some(69),  C::Read,       [Fd, Buffers, BufferCount, Offset, __, __]),
    row("pwritev",         296, Some(70),  C::Write,      [Fd, Buffers, BufferCount, Offset, __, __]),
    row("perf_event_open", 298, Some(241), C::Make("anon_inode:[perf_event]"), [__, __, __, __, Cloexec(8), __]),
    row("recvmmsg",        299, Some(243), C::Socket,     [Fd, Messages, __, __, __, __]),
    row("fanotify_init",   300, Some(262), C::Make("anon_inode:[fanotify]"), [Cloexec(1), __, __, __, __, __]),
    row("open_by_handle_at", 304, Some(265), C::Open,     [DirFd, __, OpenFlags, __, __, __]),
    row("syncfs",          306, Some(267), C::Sync,       [Fd, __, __, __, __, __]),
    row("sendmmsg",        307, Some(269), C::Socket,     [Fd, __, __, __, __, __]),
    row("setns",           308, Some(268), C::Unshare,    [Fd, CloneFlags, __, __, __, __]),
    row("renameat2",       316, Some(276), C::Rename,     [DirFd, Path, DirFd2, Path2, RenameFlags, __]),
    row("seccomp",         317, Some(277), C::Make("anon_inode:seccomp notify"), [__, NEW_LISTENER, __, __, __, __]).closed_by_exec(),
    row("memfd_create",    319, Some(279), C::Open,       [__, MemoryFlags, __, __, __, __]),
    row("bpf",             321, Some(280), C::Make("bpf"), [BPF_MAKES, __, __, __, __, __]).closed_by_exec(),
    row("execveat",        322, Some(281), C::Process,    [DirFd, Path, __, __, __, __]),
    row("userfaultfd",     323, Some(282), C::Make("anon_inode:[userfaultfd]"), [CX, __, __, __, __, __]),
    row("copy_file_range", 326, Some(285), C::Transfer,   [Fd, OffsetPtr, Fd2, OffsetPtr2, Count, __]),
    row("preadv2",         327, Some(286), C::Read,       [Fd, Buffers, BufferCount, Offset, __, RwFlags]),
    row("pwritev2",        328, Some(287), C::Write,      [Fd, Buffers, BufferCount, Offset, __, RwFlags]),
    row("statx",           332, Some(291), C::Stat,       [DirFd, Path, __, __, __, __]),
    row("io_pgetevents",   333, Some(292), C::Async,      [__, __, __, IoEvents, __, __]),
    row("io_uring_setup",  425, Some(425), C::Make("anon_inode:[io_uring]"), [__, __, __, __, __, __]).closed_by_exec(),
    row("io_uring_enter",  426, Some(426), C::Async,      [Fd, __, __, __, __, __]),
    row("io_uring_register", 427, Some(427), C::Async,    [Fd, RegisterOp, Registered, RegisterCount, __, __]),
    row("open_tree",       428, Some(428), C::Open,       [DirFd, Path, CX, __, __, __]),
    row("move_mount",      429, Some(429), C::Mount,      [DirFd, Path, DirFd2, Path2, __, __]),
    row("fsopen",          430, Some(430), C::Make("anon_inode:[fscontext]"), [__, Cloexec(1), __, __, __, __]),
    row("fsmount",         432, Some(432), C::Make("fsmount"), [__, Cloexec(1), __, __, __, __]),
    row("fspick",          433, Some(433), C::Make("anon_inode:[fscontext]"), [DirFd, Path, Cloexec(1), __, __, __]),
    row("pidfd_open",      434, Some(434), C::Make("anon_inode:[pidfd]"), [__, __, __, __, __, __]).closed_by_exec(),
    row("clone3",          435, Some(435), C::Process,    [__, __, __, __, __, __]),
    row("close_range",     436, Some(436), C::CloseRange, [Fd, LastFd, RangeFlags, __, __, __]),
    row("openat2",         437, Some(437), C::Open,       [DirFd, Path, How, __, __, __]),
    row("pidfd_getfd",     438, Some(438), C::Make("pidfd_getfd"), [__, TakenFd, __, __, __, __]).closed_by_exec(),
    row("faccessat2",      439, Some(439), C::Stat,       [DirFd, Path, __, __, __, __]),
    row("landlock_create_ruleset", 444, Some(444), C::Make("anon_inode:[landlock-ruleset]"), [__, __, MakesIf(u32::MAX, 0), __, __, __]).closed_by_exec(),
    row("memfd_secret",    447, Some(447), C::Make("/secretmem"), [CX, __, __, __, __, __]),
    row("fchmodat2",       452, Some(452), C::Attribute,  [DirFd, Path, __, __, __, __]),
    row("setxattrat",      463, Some(463), C::Attribute,  [DirFd, Path, __, __, __, __]),
    row("getxattrat",      464, Some(464), C::Stat,       [DirFd, Path, __, __, __, __]),
    row("listxattrat",     465, Some(465), C::Stat,       [DirFd, Path, __, __, __, __]),
    row("removexattrat",   466, Some(466), C::Attribute,  [DirFd, Path, __, __, __, __]),
    row("open_tree_attr",  467, Some(467), C::Open,       [DirFd, Path, CX, __, __, __]),
];
