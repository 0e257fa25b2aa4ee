//! Common parts of the tests: scratch directories, and the programs that check archives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use otf2_sys::{
    Archive, GlobalDefs, LocationGroupRef, LocationGroupType, LocationRef, LocationType, Options,
    Region, RegionFlags, RegionRef, RegionRole, Result, SystemTreeNodeRef,
};

/// A directory that vanishes with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("create the directory of the test");
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn archive(&self) -> Result<Archive> {
        Archive::create(&self.0, "traces", Options::default())
    }
}

/// A location without events.
pub(crate) fn empty_location(archive: &mut Archive) -> Result<LocationRef> {
    let writer = archive.event_writer()?;
    let location = writer.location();
    archive.close_event_writer(writer)?;
    Ok(location)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reports a test that this machine cannot run as skipped. That is a failure in CI, where it must
/// run.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "cannot run in CI: {reason}");
    eprintln!("skipped: {reason}");
}

pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// Runs a program; `None` if it is not installed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("cannot run {program}: {error}"),
    }
}

/// Output of `otf2-print`, which must not complain; `None` if it is not installed.
pub(crate) fn otf2_print(options: &[&str], anchor: &Path) -> Option<String> {
    let anchor = anchor.to_str().expect("the path of the test is UTF-8");
    let output = run("otf2-print", &[options, &[anchor]].concat())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{}: {errors}", output.status);
    Some(String::from_utf8(output.stdout).expect("otf2-print writes UTF-8"))
}

/// Fails unless `otf2-print` reads the whole archive without complaints.
pub(crate) fn assert_valid(anchor: &Path) {
    if otf2_print(&["--silent", "-Werror"], anchor).is_none() {
        skip("otf2-print (Debian: otf2-tools) is not installed");
    }
}

/// Defines one node, one process, region 0, and a thread for each location.
pub(crate) fn define_minimum(defs: &mut GlobalDefs<'_>, locations: &[LocationRef]) -> Result<()> {
    let (first, last) = defs.event_times().unwrap_or((0, 0));
    defs.clock_properties(1_000_000_000, first, last - first, None)?;
    let (name, class, thread) = (defs.string("host")?, defs.string("node")?, defs.string("t")?);
    let (node, group) = (SystemTreeNodeRef::new(0), LocationGroupRef::new(0));
    defs.system_tree_node(node, name, class, None)?;
    defs.location_group(group, name, LocationGroupType::PROCESS, node, None)?;
    for &location in locations {
        defs.location(location, thread, LocationType::CPU_THREAD, group)?;
    }
    let name = defs.string("read")?;
    defs.region(
        RegionRef::new(0),
        &Region {
            name,
            canonical_name: name,
            description: name,
            role: RegionRole::FILE_IO,
            paradigm: otf2_sys::Paradigm::NONE,
            flags: RegionFlags::NONE,
            source_file: name,
            begin_line: 0,
            end_line: 0,
        },
    )
}
