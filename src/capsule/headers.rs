//! Header and end of a log without names.

use std::collections::BTreeMap;

use super::pseudonyms::Pseudonyms;
use crate::capture::header::{
    CapsuleCounts, CaptureScope, Disk, End, Excerpt, FiredTrigger, Header, Host, JobPlace, Unread,
    UnreadPrograms,
};

/// Attributes of disks that stay: numbers and words of the kernel.
const ATTRIBUTES: [&str; 24] = [
    "size",
    "ro",
    "removable",
    "queue/rotational",
    "queue/scheduler",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/minimum_io_size",
    "queue/optimal_io_size",
    "queue/nr_requests",
    "queue/max_sectors_kb",
    "queue/max_hw_sectors_kb",
    "queue/read_ahead_kb",
    "queue/write_cache",
    "queue/fua",
    "queue/discard_granularity",
    "queue/discard_max_bytes",
    "queue/zoned",
    "queue/nomerges",
    "loop/offset",
    "loop/sizelimit",
    "loop/dio",
    "md/raid_disks",
    "md/chunk_size",
];

/// Adds the kernel's names of disks and partitions to those that stay.
pub(super) fn keep_disks(disks: &[Disk], names: &mut Pseudonyms) {
    for disk in disks {
        names.keep_disk(&disk.name);
        disk.partitions.iter().for_each(|partition| names.keep_disk(&partition.name));
    }
}

/// Returns a header with pseudonyms.
pub(super) fn header(
    header: &Header,
    names: &mut Pseudonyms,
    counts: &mut CapsuleCounts,
) -> Header {
    let Header { host, scope, .. } = header;
    let texts = [
        &host.hostname,
        &host.kernel_version,
        &header.names_reason,
        &header.layers_reason,
        &header.aio_reason,
        &header.source_reason,
    ];
    counts.texts += texts.iter().filter(|text| !text.is_empty()).count() as u64;
    let job = header.job.as_ref().map(|job| anonymous_job(job, counts));
    counts.command_lines += u64::from(!scope.command.is_empty());
    // A log with a command begins with the tracer's own code in the launched process.
    let program = scope.command.first().map(|program| text_of(names.path(program.as_bytes())));
    let group = scope.group.as_ref().map(|group| text_of(names.path(group.as_bytes())));
    let mut imported = header.imported.clone();
    if let Some(imported) = &mut imported {
        imported.file = text_of(names.name(imported.file.as_bytes()));
    }
    let mut tracepoints = header.tracepoints.clone();
    for point in &mut tracepoints {
        // A filter compares numbers, or texts in quotes.
        if point.filter.contains('"') {
            point.filter = String::new();
            counts.texts += 1;
        }
    }
    Header {
        host: Host {
            hostname: String::new(),
            kernel_release: release(&host.kernel_release),
            kernel_version: String::new(),
            ..host.clone()
        },
        scope: CaptureScope { group, command: program.into_iter().collect(), ..scope.clone() },
        names_reason: String::new(),
        layers_reason: String::new(),
        aio_reason: String::new(),
        source_reason: String::new(),
        tracepoints,
        disks: header.disks.iter().map(|disk| anonymous_disk(disk, counts)).collect(),
        job: job.filter(|job| *job != JobPlace::default()),
        imported,
        excerpt: header.excerpt.as_ref().map(|excerpt| anonymous_excerpt(excerpt, counts)),
        ..header.clone()
    }
}

/// Returns a place in a job without the names of the job: numbers of ranks name nothing.
fn anonymous_job(job: &JobPlace, counts: &mut CapsuleCounts) -> JobPlace {
    let texts = [&job.manager, &job.id, &job.step];
    counts.texts += u64::from(texts.iter().any(|text| !text.is_empty()));
    let JobPlace { rank, size, local_rank, local_size, .. } = *job;
    JobPlace { rank, size, local_rank, local_size, ..JobPlace::default() }
}

/// Returns a part of a recording without its command and without the texts of its triggers.
fn anonymous_excerpt(excerpt: &Excerpt, counts: &mut CapsuleCounts) -> Excerpt {
    counts.command_lines += u64::from(!excerpt.command.is_empty());
    let triggers = excerpt.triggers.iter().map(|fired| {
        let FiredTrigger {
            trigger,
            time_ns,
            value,
            unit,
            subject,
            pid,
            tid,
            comm,
            path,
            is_running,
        } = fired;
        let texts = [trigger, subject, comm];
        counts.texts += texts.iter().filter(|text| !text.is_empty()).count() as u64;
        counts.texts += u64::from(path.is_some());
        FiredTrigger {
            time_ns: *time_ns,
            value: *value,
            unit: unit.clone(),
            pid: *pid,
            tid: *tid,
            is_running: *is_running,
            ..FiredTrigger::default()
        }
    });
    let triggers = triggers.collect();
    Excerpt { command: Vec::new(), triggers, ..excerpt.clone() }
}

/// Returns the end of the recording with pseudonyms.
pub(super) fn end(end: &End, counts: &mut CapsuleCounts) -> End {
    counts.texts += end.warnings.len() as u64;
    counts.texts += (end.unread.first.len() + end.unread_programs.first.len()) as u64;
    End {
        warnings: Vec::new(),
        unread: Unread { first: Vec::new(), ..end.unread.clone() },
        unread_programs: UnreadPrograms { first: Vec::new(), ..end.unread_programs.clone() },
        disks: end.disks.iter().map(|disk| anonymous_disk(disk, counts)).collect(),
        ..end.clone()
    }
}

fn anonymous_disk(disk: &Disk, counts: &mut CapsuleCounts) -> Disk {
    let is_kept = |(key, _): &(&String, &String)| ATTRIBUTES.contains(&key.as_str());
    let kept = disk.attributes.iter().filter(is_kept);
    let attributes: BTreeMap<String, String> =
        kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    counts.texts += (disk.attributes.len() - attributes.len()) as u64;
    Disk { attributes, ..disk.clone() }
}

/// Version of a kernel, without the words of those that built it.
fn release(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect()
}

fn text_of(pseudonym: Vec<u8>) -> String {
    String::from_utf8_lossy(&pseudonym).into_owned()
}
