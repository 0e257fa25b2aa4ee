//! What of a log is looked at: from options to a filter.

use std::time::Duration;

use nix::unistd::User;

use super::args::{AnalyseArgs, FilterArgs, ScriptArgs, SideArg};
use super::error::CliError;
use super::events::{Wanted, wanted_events};
use crate::analysis::filter::{Events, Filter, Globs, Side};
use crate::capture::header::Header;
use crate::operation::disk;
use crate::units::{DevId, Pid};

/// What somebody wants to see; what it means for the disks of a log is known with the log.
#[derive(Clone)]
pub(super) struct Wish<'a> {
    filter: Filter,
    devices: &'a [String],
    events: &'a [String],
}

impl<'a> Wish<'a> {
    /// Of any log.
    pub(super) fn of(args: &FilterArgs) -> Result<Self, CliError> {
        let usage = |it: globset::Error| CliError::Usage(it.to_string());
        let side = args.io.map(|it| match it {
            SideArg::R => Side::Read,
            SideArg::W => Side::Write,
            SideArg::Rw => Side::Both,
        });
        let min_ns = args.min_latency.as_ref().map_or(0, Duration::as_nanos);
        let filter = Filter {
            users: args.user.iter().map(|it| user(it)).collect::<Result<_, _>>()?,
            comms: Globs::of_words(&args.comm).map_err(usage)?,
            files: Globs::of_paths(&args.files).map_err(usage)?,
            side,
            min_ns: u64::try_from(min_ns).unwrap_or(u64::MAX),
            ..Filter::default()
        };
        Ok(Self { filter, devices: &[], events: &[] })
    }

    /// Everything.
    pub(super) fn of_all() -> Self {
        Self { filter: Filter::default(), devices: &[], events: &[] }
    }

    /// Of a log; a recording has nothing else in it.
    pub(super) fn on(self, args: &'a AnalyseArgs) -> Self {
        let capture = &args.capture;
        match args.log {
            Some(_) => self.only(&capture.pid, &capture.device, &capture.events),
            None => self,
        }
    }

    /// Of a log that is printed.
    pub(super) fn of_script(args: &'a ScriptArgs) -> Result<Self, CliError> {
        Ok(Self::of(&args.filter)?.only(&args.pid, &args.device, &args.events))
    }

    fn only(mut self, pids: &[i32], devices: &'a [String], events: &'a [String]) -> Self {
        self.filter.pids = pids.iter().copied().map(Pid).collect();
        Self { devices, events, ..self }
    }

    /// What it means for a log.
    pub(super) fn filter(self, header: &Header) -> Result<Filter, CliError> {
        let mut filter = self.filter;
        filter.devices = devices(self.devices, header)?;
        if !self.events.is_empty() {
            let Wanted { calls, block, extents: _, uring, layers, faults } =
                wanted_events(self.events)?;
            let calls = calls.into_iter().collect();
            filter.events = Some(Events { calls, block, uring, layers, faults });
        }
        Ok(filter)
    }
}

/// A user of this machine by name, or any by number.
fn user(word: &str) -> Result<u32, CliError> {
    if let Ok(number) = word.parse() {
        return Ok(number);
    }
    let found = User::from_name(word).ok().flatten();
    found.map(|it| it.uid.as_raw()).ok_or_else(|| {
        CliError::Usage(format!("this machine has no user {word}; give the number: -u 1000"))
    })
}

/// The disks of a log by name or number.
fn devices(words: &[String], header: &Header) -> Result<Vec<DevId>, CliError> {
    let names = disk::names(&header.disks);
    let find = |word: &String| {
        let bare = word.strip_prefix("/dev/").unwrap_or(word);
        let named = names.iter().find(|it| it.1 == bare).map(|it| it.0);
        named.or_else(|| DevId::parse(bare)).ok_or_else(|| {
            let all: Vec<&str> = names.iter().map(|it| it.1.as_str()).collect();
            CliError::Usage(format!("the log has no disk {word}; it has {}", all.join(", ")))
        })
    };
    words.iter().map(find).collect()
}
