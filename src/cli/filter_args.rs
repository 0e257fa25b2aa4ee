//! Filters of a log, from the options.

use std::ops::RangeInclusive;
use std::time::Duration;

use nix::unistd::User;

use super::args::{AnalyseArgs, ScriptArgs};
use super::container_names;
use super::error::CliError;
use super::events::{EventSelection, wanted_events};
use super::report_args::{FilterArgs, SideArg};
use crate::analysis::filter::{
    Cgroups, DevicePart, Events, Filter, Globs, MountFilter, SideFilter,
};
use crate::capture::header::{Header, Partition};
use crate::operation::disk;
use crate::text::quantity;
use crate::units::{DevId, KernelTime, Pid, Tid};

/// A filter as given; the log's header resolves its disks and times.
#[derive(Clone)]
pub(super) struct FilterSpec<'a> {
    filter: Filter,
    devices: &'a [String],
    events: &'a [String],
    /// Limits on the time, from the beginning of the recording.
    window: [Option<Duration>; 2],
    /// True if operations after the window matter, too.
    needs_all: bool,
}

impl<'a> FilterSpec<'a> {
    /// Filter of any log.
    pub(super) fn of(args: &FilterArgs) -> Result<Self, CliError> {
        let usage = |error: globset::Error| {
            let pattern = error.glob().unwrap_or_default();
            CliError::Usage(format!(
                "the pattern {pattern} is not valid: {}; [[] is a bracket itself",
                error.kind()
            ))
        };
        let side = args.io.map(|direction| match direction {
            SideArg::R => SideFilter::Read,
            SideArg::W => SideFilter::Write,
            SideArg::Rw => SideFilter::Both,
        });
        let min_ns = args.min_latency.as_ref().map_or(0, Duration::as_nanos);
        let filter = Filter {
            excluded_pids: args.exclude_pid.iter().copied().map(Pid).collect(),
            tids: args.tid.iter().copied().map(Tid).collect(),
            cgroups: cgroups(&args.cgroup)?,
            failed: (args.failed || args.succeeded).then_some(args.failed),
            users: args.user.iter().map(|arg| user(arg)).collect::<Result<_, _>>()?,
            comms: Globs::of_words(&args.comm).map_err(usage)?,
            files: Globs::of_paths(&args.files).map_err(usage)?,
            mounts: MountFilter::new(&args.mount, &args.fs_type).map_err(usage)?,
            side,
            min_ns: u64::try_from(min_ns).unwrap_or(u64::MAX),
            bytes: sizes(args.min_size, args.max_size)?,
            ..Filter::default()
        };
        let window = [args.from, args.until];
        if let [Some(from), Some(until)] = window
            && from >= until
        {
            return Err(CliError::Usage(format!(
                "--until {} is not later than --from {}: exchange the two",
                quantity::time(until.as_nanos().try_into().unwrap_or(u64::MAX)),
                quantity::time(from.as_nanos().try_into().unwrap_or(u64::MAX)),
            )));
        }
        Ok(Self { filter, devices: &[], events: &[], window, needs_all: false })
    }

    /// Filter that selects all operations.
    pub(super) fn of_all() -> Self {
        let (filter, window) = (Filter::default(), [None; 2]);
        Self { filter, devices: &[], events: &[], window, needs_all: false }
    }

    /// Filter of a log with `-p`, `-d` and `-e`; a recording already has only those events.
    pub(super) fn on(self, args: &'a AnalyseArgs) -> Self {
        let capture = &args.capture;
        match args.log {
            Some(_) => self.only(&capture.pid, &capture.device, &capture.events),
            None => self,
        }
    }

    /// Filter of a log that is printed.
    pub(super) fn of_script(args: &'a ScriptArgs) -> Result<Self, CliError> {
        Ok(Self::of(&args.filter)?.only(&args.pid, &args.device, &args.events))
    }

    fn only(mut self, pids: &[i32], devices: &'a [String], events: &'a [String]) -> Self {
        self.filter.pids = pids.iter().copied().map(Pid).collect();
        Self { devices, events, ..self }
    }

    /// Filter that selects operations, and all block requests.
    pub(super) fn with_all_requests(mut self) -> Self {
        self.filter.all_requests = true;
        self
    }

    /// Filter with which a log is read to its end, whatever the last selected time is.
    pub(super) fn needing_all(self) -> Self {
        Self { needs_all: true, ..self }
    }

    /// Resolves the filter for a log; returns it with the time up to which the log must be read.
    pub(super) fn filter_and_end(self, header: &Header) -> Result<(Filter, KernelTime), CliError> {
        self.filter_since(header, header.clock.start_ns.into())
    }

    /// Resolves the filter as [`Self::filter_and_end`] does; its times count from `zero_ns` on the
    /// clock of the log: negative if the host has booted later.
    pub(super) fn filter_since(
        self,
        header: &Header,
        zero_ns: i128,
    ) -> Result<(Filter, KernelTime), CliError> {
        let needs_all = self.needs_all;
        let window = window(self.window, zero_ns);
        let filter = Filter { window, ..self.filter(header)? };
        let until = if needs_all { KernelTime::MAX } else { filter.last_time() };
        Ok((filter, until))
    }

    /// Checks what needs no log.
    ///
    /// # Errors
    ///
    /// Usage: there is no such event.
    pub(super) fn check_events(&self) -> Result<(), CliError> {
        match self.events {
            [] => Ok(()),
            events => wanted_events(events).map(|_| ()),
        }
    }

    /// True if the filter selects all operations of any log.
    pub(super) fn is_all(&self) -> bool {
        let Self { filter, devices, events, window, needs_all: _ } = self;
        filter.is_all() && devices.is_empty() && events.is_empty() && *window == [None; 2]
    }

    /// Resolves the filter for a log.
    pub(super) fn filter(self, header: &Header) -> Result<Filter, CliError> {
        let mut filter = self.filter;
        filter.devices = devices(self.devices, header)?;
        filter.window = window(self.window, header.clock.start_ns.into());
        if !self.events.is_empty() {
            let EventSelection { calls, block, extents: _, uring, layers, faults } =
                wanted_events(self.events)?;
            let calls = calls.into_iter().collect();
            filter.events = Some(Events { calls, block, uring, layers, faults });
        }
        Ok(filter)
    }
}

/// Control groups by their words.
pub(super) fn cgroups(words: &[String]) -> Result<Cgroups, CliError> {
    if words.iter().any(|word| word.trim().is_empty()) {
        return Err(CliError::Usage(
            "-G takes a path, a unit or a container, not an empty word".into(),
        ));
    }
    Ok(container_names::with_named(Cgroups::new(words.to_vec())))
}

/// Range of sizes in bytes.
fn sizes(min: Option<u64>, max: Option<u64>) -> Result<Option<RangeInclusive<u64>>, CliError> {
    let range = min.unwrap_or(0)..=max.unwrap_or(u64::MAX);
    if range.is_empty() {
        return Err(CliError::Usage("--max-size must be at least --min-size".into()));
    }
    Ok((min.is_some() || max.is_some()).then_some(range))
}

/// Range of times of a log; they count from `zero_ns` on its clock.
fn window(window: [Option<Duration>; 2], zero_ns: i128) -> Option<(KernelTime, KernelTime)> {
    let ns = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    let at = |duration: Duration| {
        let time = zero_ns.saturating_add(ns(duration)).max(0);
        KernelTime(u64::try_from(time).unwrap_or(u64::MAX))
    };
    let [from, until] = window.map(|window| window.map(at));
    let is_limited = from.is_some() || until.is_some();
    is_limited.then(|| (from.unwrap_or(KernelTime::MIN), until.unwrap_or(KernelTime::MAX)))
}

/// Parses a user: a name on this machine, or any number.
fn user(word: &str) -> Result<u32, CliError> {
    if let Ok(number) = word.parse() {
        return Ok(number);
    }
    let found = User::from_name(word).ok().flatten();
    found.map(|found| found.uid.as_raw()).ok_or_else(|| {
        CliError::Usage(format!("this machine has no user {word}; give the number: -u 1000"))
    })
}

/// Finds disks and partitions of a log by name or number.
fn devices(words: &[String], header: &Header) -> Result<Vec<DevicePart>, CliError> {
    let names = disk::names(&header.disks);
    let find = |word: &String| {
        let bare = word.strip_prefix("/dev/").unwrap_or(word);
        let named = names.iter().find(|name| name.1 == bare).map(|name| name.0);
        let Some(dev) = named.or_else(|| DevId::parse(bare)) else {
            let mut all: Vec<&str> = names.iter().map(|name| name.1.as_str()).collect();
            all.sort_by_key(|name| strsim::damerau_levenshtein(name, bare));
            let all = all.join(", ");
            return Err(CliError::Usage(format!("the log has no disk {word}; it has {all}")));
        };
        let whole = DevicePart { dev, sectors: None };
        let on_disk = part_of_disk(dev, header)?;
        Ok([whole].into_iter().chain(on_disk).collect())
    };
    let parts: Vec<Vec<DevicePart>> = words.iter().map(find).collect::<Result<_, _>>()?;
    Ok(parts.concat())
}

/// Returns the sectors of a partition on its disk; `None`: the device is no partition.
fn part_of_disk(dev: DevId, header: &Header) -> Result<Option<DevicePart>, CliError> {
    let is_it = |partition: &&Partition| DevId::parse(&partition.dev) == Some(dev);
    let found = header.disks.iter().find_map(|disk| {
        let partition = disk.partitions.iter().find(is_it)?;
        Some((disk, partition))
    });
    let Some((disk, partition)) = found else { return Ok(None) };
    let end = |start: u64| Some((start, start.checked_add(partition.sectors?)?));
    let range = partition.start_sectors.and_then(end).zip(DevId::parse(&disk.dev));
    match range {
        Some(((start, end), dev)) => Ok(Some(DevicePart { dev, sectors: Some(start..end) })),
        None => Err(CliError::Usage(format!(
            "the log does not have the place of the partition {} on its disk; give the disk: -d {}",
            partition.name, disk.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::header::Disk;

    fn header(start_sectors: Option<u64>) -> Header {
        let (dev, name) = ("8:1".into(), "sda1".into());
        let partition = Partition { dev, name, start_sectors, sectors: Some(100) };
        let disk = Disk {
            dev: "8:0".into(),
            name: "sda".into(),
            partitions: vec![partition],
            ..Disk::default()
        };
        Header { disks: vec![disk], ..Header::default() }
    }

    /// Fails if times of a host that has booted after the job began count from its boot.
    #[test]
    fn times_count_from_a_moment_before_the_boot() {
        let seconds = |s| Some(Duration::from_secs(s));
        let at = |s: u64| KernelTime(s * 1_000_000_000);
        assert_eq!(window([seconds(9), seconds(12)], -10_000_000_000), Some((at(0), at(2))));
        assert_eq!(window([seconds(9), None], 1_000_000_000), Some((at(10), KernelTime::MAX)));
        assert_eq!(window([None; 2], -1), None);
    }

    #[test]
    fn partition_is_a_part_of_its_disk() {
        let part = |minor, sectors| DevicePart { dev: DevId::new(8, minor), sectors };
        let found = |word: &str, start| devices(&[word.to_owned()], &header(start));
        let of_disk = found("/dev/sda", Some(64)).expect("it is there");
        assert_eq!(of_disk, [part(0, None)]);
        let of_partition = found("sda1", Some(64)).expect("its place is known");
        assert_eq!(of_partition, [part(1, None), part(0, Some(64..164))]);
        let error = found("sda1", None).expect_err("its place is not known").to_string();
        assert!(error.contains("give the disk: -d sda"), "{error}");
        let error = found("sdb1", Some(64)).expect_err("no such disk").to_string();
        assert!(error.ends_with("it has sda1, sda"), "{error}");
    }
}
