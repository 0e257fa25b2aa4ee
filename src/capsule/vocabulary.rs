//! Words that a capsule keeps: those of the kernel, which every machine has and which reports
//! interpret, and widely used extensions.

/// Directories at the root whose names stay: reports interpret the names below them.
pub(super) const ROOTS: [&[u8]; 3] = [b"dev", b"proc", b"sys"];

/// Nodes in `/dev` whose names stay.
pub(super) const DEVICE_NODES: [&[u8]; 6] =
    [b"null", b"zero", b"full", b"random", b"urandom", b"tty"];

/// Beginnings of the kernel's names of objects without a path.
pub(super) const KERNEL_OBJECTS: [&[u8]; 6] =
    [b"pipe:[", b"socket:[", b"anon_inode:", b"pidfd:[", b"mnt:[", b"net:["];

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
