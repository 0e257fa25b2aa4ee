//! Pool of instances that ended recordings leave to the next one.
//!
//! The kernel waits for all CPUs when an instance is created, gets its clock, its size, and when it
//! is removed. So an instance is emptied and switched off after a recording, and stays for
//! [`KEPT_NS`]. A free instance costs memory only: none of its events is on.
//!
//! A free instance is one of ours without a lock. The lock is the ownership, the name stays
//! that of the first tracer, and the directory's modification time says when it became free. So a
//! process that is killed leaves nothing wrong, and there is no list that could be. Other users of
//! tracefs may have changed a free instance: only one that is like a new one is used.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::FlockArg;

use super::clock;
use super::probe_events;
use super::ring::page_bytes;
use super::signal::Termination;
use super::tracefs::Tracefs;
use super::tracefs_instance::{
    CLEAR_FILTER, Instance, NO_FILTER, RingStats, lock, lock_all, ours, remove,
    tracers_with_markers,
};

/// Purposes of the instances of the pool: those that record or count.
const POOLED: [&str; 5] = ["main", "names", "entries", "block", "counter"];

/// Time for which a free instance is kept, ns.
const KEPT_NS: u64 = 60_000_000_000;

/// Largest size of all rings of a free instance, KiB. Larger rings are shrunk.
const FREE_KB_MAX: u64 = 32 << 10;

/// Takes a free instance for this purpose, or creates one.
///
/// # Errors
///
/// Those of [`Instance::create`].
pub fn obtain(tracefs: &Tracefs, purpose: &str) -> io::Result<Instance> {
    // An instance that was changed is removed after the lock, because the kernel takes its time.
    let mut changed = Vec::new();
    let guard = lock_all(tracefs)?;
    let options = foreign_options(tracefs.root());
    for root in free(tracefs, |other| other == purpose)? {
        match Instance::take(root) {
            Some(instance) if is_like_new(instance.root(), &options) => return Ok(instance),
            other => changed.extend(other),
        }
    }
    Instance::create_guarded(&guard, tracefs, purpose)
}

/// Switches instances off, and removes their records, filters and lists of threads. Instances for
/// which that fails are removed, and all if this user is not root: others have no pool.
pub fn clear_all(used: Vec<Instance>) -> Vec<Instance> {
    let is_root = nix::unistd::geteuid().is_root();
    let is_kept = |instance: &Instance| {
        let is_pooled = POOLED.iter().any(|purpose| instance.is_for(purpose));
        is_root && is_pooled && clear(instance.root()).is_ok()
    };
    used.into_iter().filter(is_kept).collect()
}

/// Keeps these cleared instances for the next recording, until the time of all free instances is
/// over or a signal asks this process to end. Returns at once if another process looks after the
/// free instances.
///
/// # Errors
///
/// Those of reading `instances`. Instances that cannot be kept are removed.
pub fn keep(tracefs: &Tracefs, cleared: Vec<Instance>) -> io::Result<()> {
    let options = foreign_options(tracefs.root());
    let termination = Termination::new()?;
    let guard = lock_all(tracefs)?;
    let mut removed = Vec::new();
    for instance in cleared {
        let is_new = is_like_new(instance.root(), &options);
        let is_there = !free(tracefs, |purpose| instance.is_for(purpose))?.is_empty();
        if is_new && !is_there { set_free(instance)? } else { removed.push(instance) }
    }
    // One process is enough. Every tracefs has this file, and no other program locks it.
    let keeper = lock(&tracefs.root().join("README"), FlockArg::LockExclusiveNonblock);
    drop(guard);
    drop(removed);
    if keeper.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        return Ok(());
    }
    let mut ends = false;
    loop {
        let guard = lock_all(tracefs)?;
        let (expired, left_ns) = expired(tracefs, if ends { 0 } else { KEPT_NS })?;
        let Some(left_ns) = left_ns else {
            // The next keeper must see that there is none, before it sees that nothing is free.
            drop(keeper);
            drop(guard);
            return Ok(());
        };
        drop(guard);
        drop(expired);
        ends = termination.arrives_within(Duration::from_nanos(left_ns))?;
    }
}

/// Treatment of the free instances of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeInstances {
    /// Instances stay for the next recording.
    Keep,
    /// All instances without a lock are removed.
    Remove,
}

/// Removes the instances of tracers that have ended, and their probes. Returns the number of
/// instances that were left; those of the pool are not counted, because they were kept on purpose.
///
/// # Errors
///
/// Those of reading `instances`.
pub fn remove_stale(tracefs: &Tracefs, free: FreeInstances) -> io::Result<usize> {
    let _guard = lock_all(tracefs)?;
    let mut removed = 0;
    for (_, path) in ours(tracefs)? {
        let (is_free, is_within_limits) = (is_free(&path), is_within_limits(&path));
        let stays = free == FreeInstances::Keep && is_free && is_within_limits;
        // An instance is locked as long as its tracer lives.
        if !stays && lock(&path, FlockArg::LockExclusiveNonblock).is_ok() {
            let is_left = !(is_free && is_within_limits);
            removed += usize::from(remove(&path).is_ok() && is_left);
        }
    }
    // A tracer with probes has an instance, too, which was created before them and is removed after
    // them.
    let alive = tracers_with_markers(tracefs);
    probe_events::remove_stale(tracefs, |pid| alive.contains(&pid));
    Ok(removed)
}

/// True if a free instance may stay: its time is not over, and its rings are small. (The process
/// that looks after the pool may have been killed, or a tracer at its start.)
fn is_within_limits(instance: &Path) -> bool {
    let since = fs::metadata(instance).and_then(|about| about.modified());
    let is_recent = since.is_ok_and(|since| left_ns(since, KEPT_NS).is_some());
    is_recent && has_small_rings(instance).unwrap_or(false)
}

/// Returns the rest of this time, ns, since an instance became free; `None`: the time is over.
fn left_ns(since: SystemTime, kept_ns: u64) -> Option<u64> {
    let since_ns = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let since_ns = u64::try_from(since_ns).unwrap_or(u64::MAX);
    // A clock that was set back makes an instance older, never younger.
    let age_ns = clock::realtime_ns().checked_sub(since_ns).unwrap_or(u64::MAX);
    kept_ns.checked_sub(age_ns).filter(|left| *left > 0)
}

fn has_small_rings(instance: &Path) -> io::Result<bool> {
    let total = fs::read_to_string(instance.join("buffer_total_size_kb"))?;
    Ok(total.trim().parse::<u64>().is_ok_and(|kb| kb <= FREE_KB_MAX))
}

/// True if the instance is in the pool, or would be without its lock: it is off, and its events are
/// off, so that it costs memory only.
fn is_free(instance: &Path) -> bool {
    let is = |file: &str, value: &str| {
        fs::read_to_string(instance.join(file)).is_ok_and(|text| text.trim() == value)
    };
    let name = instance.file_name().unwrap_or_default().to_string_lossy();
    // An event with a trigger is in the list, too.
    POOLED.iter().any(|purpose| name.ends_with(&format!("-{purpose}")))
        && is("tracing_on", "0")
        && is("set_event", "")
}

/// Free instances with these purposes.
fn free(tracefs: &Tracefs, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let ours = ours(tracefs)?.into_iter();
    let wanted = ours.filter(|(purpose, _)| is_wanted(purpose)).map(|(_, root)| root);
    Ok(wanted.filter(|root| is_unlocked(root) && is_free(root)).collect())
}

fn is_unlocked(instance: &Path) -> bool {
    lock(instance, FlockArg::LockExclusiveNonblock).is_ok()
}

/// Takes the instances that have been free for at least this time in ns, and returns the time after
/// which the next one will have been; `None`: there is no other free one.
fn expired(tracefs: &Tracefs, kept_ns: u64) -> io::Result<(Vec<Instance>, Option<u64>)> {
    let (mut expired, mut next_ns) = (Vec::new(), None::<u64>);
    for root in free(tracefs, |_| true)? {
        match left_ns(fs::metadata(&root)?.modified()?, kept_ns) {
            Some(left) => next_ns = Some(next_ns.map_or(left, |other| other.min(left))),
            None => expired.extend(Instance::take(root)),
        }
    }
    Ok((expired, next_ns))
}

/// Gives up an instance: the next recording may take it.
fn set_free(instance: Instance) -> io::Result<()> {
    let now = UNIX_EPOCH + Duration::from_nanos(clock::realtime_ns());
    File::open(instance.root())?.set_modified(now)?;
    instance.set_free();
    Ok(())
}

/// Switches an instance off, and removes its records, its filters and its list of threads.
fn clear(instance: &Path) -> io::Result<()> {
    let write = |file: &str, value: &str| fs::write(instance.join(file), value);
    write("tracing_on", "0")?;
    let recorded = fs::read_to_string(instance.join("set_event"))?;
    write("events/enable", "0")?;
    write("set_event_pid", "")?;
    // Kernels before 5.7 have no such list.
    if instance.join("set_event_notrace_pid").exists() {
        write("set_event_notrace_pid", "")?;
    }
    write("options/event-fork", "0")?;
    for event in recorded.lines().filter_map(|event| event.split_once(':')) {
        let file = format!("events/{}/{}/filter", event.0, event.1);
        // An event of a probe may be gone.
        let filter = fs::read_to_string(instance.join(&file)).unwrap_or_default();
        if !matches!(filter.trim_end(), "" | NO_FILTER) {
            write(&file, CLEAR_FILTER)?;
        }
    }
    if !has_small_rings(instance)? {
        write("buffer_size_kb", "1")?;
    }
    // Truncating this file empties the rings.
    write("trace", "")
}

/// True if everything about a free instance is as in a new one, except for its clock, its size,
/// the filters of its events, and what [`Instance`] sets in any case.
fn is_like_new(instance: &Path, options: &BTreeSet<String>) -> bool {
    // Kernels have not all of these files.
    let text = |file: &str| fs::read_to_string(instance.join(file)).ok();
    let is = |file: &str, value: &str| text(file).is_none_or(|text| text.trim() == value);
    let page_kb = (page_bytes() >> 10).to_string();
    is_free(instance)
        && is("current_tracer", "nop")
        && is("set_event_pid", "")
        && is("set_event_notrace_pid", "")
        && is("buffer_subbuf_size_kb", &page_kb)
        && is("timestamp_mode", "[delta] absolute")
        && text("snapshot").is_none_or(|text| text.contains("Snapshot is freed"))
        && text("set_ftrace_filter")
            .is_none_or(|text| text.lines().all(|line| line.starts_with('#')))
        && text("trace_options").is_some_and(|text| has_options(&text, options))
        && has_empty_rings(instance)
}

/// True if the ring of each CPU has had no record since it was emptied, and records: a CPU that is
/// off keeps its records.
fn has_empty_rings(instance: &Path) -> bool {
    let Ok(cpus) = fs::read_dir(instance.join("per_cpu")) else { return false };
    let mut count = 0;
    let all_empty = cpus.flatten().all(|cpu| {
        count += 1;
        let stats = fs::read_to_string(cpu.path().join("stats"));
        stats.is_ok_and(|stats| RingStats::parse(&stats) == RingStats::default())
    });
    let mask = fs::read_to_string(instance.join("tracing_cpumask")).unwrap_or_default();
    let recorded: u32 =
        mask.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum();
    all_empty && count > 0 && recorded >= count
}

/// Options that a new instance does not inherit, and that are off in it.
const OFF_IN_NEW: [&str; 4] =
    ["event-fork", "function-fork", "trace_printk_dest", "copy_trace_marker"];

/// Options that a recording sets, or that depend on the tracer of the top instance.
const OPTIONS_SET: [&str; 4] = ["overwrite", "block", "test_nop_accept", "test_nop_refuse"];

/// Lines of `trace_options` in a new instance: it inherits most options from the top instance.
fn foreign_options(top: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(top.join("trace_options")).unwrap_or_default();
    let is_inherited = |line: &&str| !OFF_IN_NEW.iter().any(|name| is_option(line, name));
    let inherited = text.lines().filter(is_inherited).map(str::to_owned);
    inherited.chain(OFF_IN_NEW.map(|name| format!("no{name}"))).collect()
}

fn has_options(text: &str, wanted: &BTreeSet<String>) -> bool {
    let is_set = |line: &str| OPTIONS_SET.iter().any(|name| is_option(line, name));
    text.lines().all(|line| wanted.contains(line) || is_set(line))
}

/// True if the line says that the option is on or off.
fn is_option(line: &str, name: &str) -> bool {
    line == name || line.strip_prefix("no") == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_with_a_changed_option_is_not_like_new() {
        let top = tempfile::tempdir().expect("a directory");
        let text = "overwrite\nmarkers\nnostacktrace\ntrace_printk_dest\nnoevent-fork\n";
        fs::write(top.path().join("trace_options"), text).expect("written");
        let options = foreign_options(top.path());
        let new = "nooverwrite\nmarkers\nnostacktrace\nnotrace_printk_dest\nnoevent-fork\ntest_nop_accept\n";
        assert!(has_options(new, &options));
        for (from, to) in [
            ("nostacktrace", "stacktrace"),
            ("markers", "nomarkers"),
            ("noevent-fork", "event-fork"),
            ("notrace_printk_dest", "trace_printk_dest"),
        ] {
            assert!(!has_options(&new.replace(from, to), &options), "{to}");
        }
    }
}
