//! Words that a capsule keeps: those of the kernel, which every machine has and which reports
//! interpret, and widely used extensions.

/// Directories at the root whose names stay: reports interpret the names below them.
pub(super) const ROOTS: [&[u8]; 3] = [b"dev", b"proc", b"sys"];

/// Nodes and directories in `/dev` whose names stay. Replay tells files in the directories from
/// devices.
pub(super) const DEVICE_NODES: [&[u8]; 8] =
    [b"null", b"zero", b"full", b"random", b"urandom", b"tty", b"shm", b"fd"];

/// Words of the kernel's names of objects with a number, such as `pipe:[7]`.
pub(super) const KERNEL_OBJECTS: [&[u8]; 11] = [
    b"pipe", b"socket", b"pidfd", b"mnt", b"net", b"pid", b"user", b"uts", b"ipc", b"cgroup",
    b"time",
];

/// Beginning of the kernel's names of files without a path.
pub(super) const ANONYMOUS: &[u8] = b"anon_inode:";

/// Names of files without a path that stay.
pub(super) const ANONYMOUS_INODES: [&[u8]; 16] = [
    b"anon_inode:[eventfd]",
    b"anon_inode:[eventpoll]",
    b"anon_inode:[fanotify]",
    b"anon_inode:[fscontext]",
    b"anon_inode:[io_uring]",
    b"anon_inode:[landlock-ruleset]",
    b"anon_inode:[perf_event]",
    b"anon_inode:[pidfd]",
    b"anon_inode:[signalfd]",
    b"anon_inode:[timerfd]",
    b"anon_inode:[userfaultfd]",
    b"anon_inode:bpf-map",
    b"anon_inode:bpf-prog",
    b"anon_inode:bpf_link",
    b"anon_inode:inotify",
    b"anon_inode:seccomp notify",
];

/// Beginnings of names that a program has given to an object.
pub(super) const PREFIXES: [&[u8]; 3] = [b"memfd:", b"dmabuf:", b"[anon:"];

/// Length of the longest extension that stays, in bytes.
pub(super) const EXTENSION_BYTES_MAX: usize = 8;

/// Extensions that stay.
pub(super) const EXTENSIONS: [&str; 122] = [
    "7z", "a", "aac", "avi", "avro", "bak", "bash", "bat", "bin", "bmp", "bz2", "c", "cc", "cfg",
    "class", "conf", "cpp", "cs", "css", "csv", "cxx", "d", "dat", "data", "db", "deb", "diff",
    "dll", "doc", "docx", "dump", "dylib", "elf", "exe", "flac", "gif", "go", "gz", "h", "h5",
    "hdf5", "hpp", "htm", "html", "ico", "idx", "img", "ini", "iocap", "ipynb", "iso", "jar",
    "java", "jpeg", "jpg", "js", "json", "ko", "lock", "log", "lz4", "m4", "map", "md", "mkv",
    "mo", "mov", "mp3", "mp4", "nc", "o", "odt", "old", "orc", "orig", "out", "pack", "parquet",
    "patch", "pb", "pdf", "php", "pid", "pl", "pm", "png", "ppt", "py", "pyc", "qcow2", "r", "raw",
    "rb", "rlib", "rmeta", "root", "rpm", "rs", "s", "scope", "service", "sh", "slice", "so",
    "sock", "sql", "sqlite", "sst", "svg", "swp", "tar", "tgz", "tmp", "toml", "ts", "txt", "wal",
    "wav", "xml", "xz", "yaml", "zst",
];
