//! Logs of Darshan from real jobs, printed by Darshan's own library: calls and bytes of the import
//! are those of the library's records.

use std::fs;
use std::process::Command;

use crate::support::driver::process::run;
use crate::support::driver::recording::{Recording, TIMEOUT, iotrace};
use crate::support::machine::requirements::{Need, python, require};
use crate::support::{scratch_dir, text};

/// Writes the text of darshan-dxt-parser for each example of the Python package that has segments:
/// the parser's own functions print the records. Prints the file, and by the records reads, their
/// bytes, writes and their bytes.
const PRINTER: &str = r#"
import ctypes, glob, os, sys
import darshan
import darshan.backend.cffi_backend as backend

here = os.path.dirname(darshan.__file__)
library = ctypes.CDLL(glob.glob(os.path.join(here, "..", "darshan.libs", "libdarshan-util*"))[0])
for path in sorted(glob.glob(os.path.join(here, "**", "*.darshan"), recursive=True)):
    log = backend.log_open(path)
    modules = backend.log_get_modules(log)
    if "DXT_POSIX" not in modules:
        continue
    names = backend.log_get_name_records(log)
    name = os.path.basename(path) + ".txt"
    sums = [0, 0, 0, 0]
    saved = os.dup(1)
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
    while True:
        buffer = backend.ffi.new("void **")
        index = modules["DXT_POSIX"]["idx"]
        if backend.libdutil.darshan_log_get_record(log["handle"], index, buffer) < 1:
            break
        record = backend.ffi.cast("struct dxt_file_record **", buffer)[0]
        segments = backend.ffi.cast("segment_info *", buffer[0] + backend.ffi.sizeof(record[0]))
        for number in range(record.write_count + record.read_count):
            place = 2 if number < record.write_count else 0
            sums[place] += 1
            sums[place + 1] += segments[number].length
        address = ctypes.c_void_p(int(backend.ffi.cast("uintptr_t", buffer[0])))
        file = names.get(record.base_rec.id, "unknown").encode()
        library.dxt_log_print_posix_file(address, file, b"/", b"unknown", None)
    library.fflush(None)
    os.dup2(saved, 1)
    os.close(saved)
    print(name, *sums, flush=True)
"#;

/// Fails if a segment of a real log is lost, or its length is read wrongly.
#[test]
fn segments_of_real_logs_are_counted_as_by_darshan() {
    if !require(Need::PythonModule("darshan")) {
        return;
    }
    let dir = scratch_dir("darshan");
    let mut printer = Command::new(python());
    printer.args(["-c", PRINTER]).current_dir(dir.path());
    let printed = run(&mut printer, TIMEOUT).expect("it ends").success().stdout();
    let mut logs = 0;
    for line in printed.lines() {
        let (name, sums) = line.split_once(' ').expect("a name and numbers");
        let sums: Vec<u64> =
            sums.split(' ').map(|number| number.parse().expect("a number")).collect();
        let file = dir.path().join(name);
        assert!(fs::metadata(&file).is_ok_and(|found| found.len() > 0), "{name}");
        let log = file.with_extension("iocap");
        let arguments = ["import", text(&file), "-o", text(&log), "--from", "dxt"];
        iotrace(&arguments).success();
        let calls = &Recording::open(&log).info["calls"];
        // Calls that were not made have no entry.
        let number = |call: &str, key: &str| calls[call][key].as_u64().unwrap_or(0);
        let of_call = |call| ["count", "bytes"].map(|key| number(call, key));
        assert_eq!(["pread64", "pwrite64"].map(of_call).concat(), sums, "{name}");
        logs += 1;
    }
    assert!(logs >= 2, "{printed}");
}
