//! Definitions of an archive of several captures: those of each capture are kept as numbers of
//! texts until all captures are written.

use std::collections::BTreeMap;

use otf2_sys::{
    Archive, AttributeValue, GlobalDefs, IoFileRef, LocationGroupRef, LocationGroupType,
    LocationRef, LocationType, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

use super::metrics;
use super::registry::{Definitions, LocationOwner};
use super::system_tree::{MACHINE, identity, named, node_property, processes_with_location};
use super::write::{attributes, handles, regions, write_file};
use crate::capture::header::Disk;
use crate::operation::disk;
use crate::operation::model::{ProcessInfo, ProcessKey};
use crate::otf2::error::OtfError;
use crate::otf2::files::FileDefinitions;
use crate::otf2::handles::HandleTable;
use crate::otf2::regions::Regions;
use crate::otf2::sink::EndedCapture;
use crate::otf2::text::printable;

/// A host and its properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobHost {
    /// Name of the host.
    pub name: String,
    /// Properties of its node in the system tree, by name.
    pub properties: Vec<(String, String)>,
}

/// Place of a capture in a job.
#[derive(Clone, Copy, Debug)]
pub(in crate::otf2) struct CapturePlace {
    pub(in crate::otf2) host: u32,
    pub(in crate::otf2) rank: Option<u64>,
}

/// A process.
#[derive(Debug)]
struct JobGroup {
    place: CapturePlace,
    name: StringRef,
    pid: i32,
    creator: Option<LocationGroupRef>,
    properties: Vec<(StringRef, StringRef)>,
}

/// A disk of a host.
#[derive(Debug)]
struct JobDevice {
    host: u32,
    name: String,
    properties: Vec<(StringRef, StringRef)>,
}

/// Owner of a location.
#[derive(Debug)]
enum JobOwner {
    Thread {
        group: LocationGroupRef,
        tid: i32,
    },
    /// Number of a disk.
    Device(usize),
    /// No owner, in a trace without events.
    None,
}

#[derive(Debug)]
struct JobLocation {
    this: LocationRef,
    name: StringRef,
    owner: JobOwner,
}

/// Definitions of all captures so far.
#[derive(Debug, Default)]
pub(in crate::otf2) struct JobTree {
    groups: Vec<JobGroup>,
    devices: Vec<JobDevice>,
    locations: Vec<JobLocation>,
}

/// Times of the archive, ns on its clock.
#[derive(Clone, Copy, Debug)]
pub(in crate::otf2) struct JobClock {
    pub(in crate::otf2) start: u64,
    pub(in crate::otf2) end: u64,
    /// Wall clock at time 0 of the archive, ns since 1970.
    pub(in crate::otf2) zero_wall_ns: u64,
}

impl JobTree {
    /// Number of locations so far.
    pub(in crate::otf2) fn locations(&self) -> u64 {
        self.locations.len() as u64
    }

    /// Adds the definitions of a capture that has ended, whose disks these are.
    pub(in crate::otf2) fn add(
        &mut self,
        place: CapturePlace,
        ended: &EndedCapture,
        disks: &[Disk],
        definitions: &mut Definitions,
    ) -> Result<(), OtfError> {
        let owners = std::mem::take(&mut definitions.owners);
        let archive = &mut definitions.archive;
        let processes = self.processes(place, ended, &owners, archive)?;
        for (this, owner) in owners {
            let (text, owner) = match owner {
                LocationOwner::Thread(key) => {
                    let Some(thread) = ended.tasks.thread(key) else { continue };
                    let Some(&group) = processes.get(&thread.process) else { continue };
                    let name = format!("{}:{}", named(&thread.comm, "thread"), thread.tid);
                    (name, JobOwner::Thread { group, tid: thread.tid.0 })
                }
                LocationOwner::Device(dev) => {
                    let (name, number) = (ended.devices.name(dev), dev.to_string());
                    let disk = disks.iter().find(|disk| disk.dev == number);
                    let requests = match place.rank {
                        Some(rank) => format!("{name} requests of rank {rank}"),
                        None => format!("{name} requests"),
                    };
                    let device = self.device(place.host, name, &number, disk, archive)?;
                    (requests, JobOwner::Device(device))
                }
                LocationOwner::None => ("nothing recorded".to_owned(), JobOwner::None),
            };
            self.locations.push(JobLocation { this, name: archive.intern(&text)?, owner });
        }
        Ok(())
    }

    /// Adds the processes that have a location, parents mostly before their children.
    fn processes(
        &mut self,
        place: CapturePlace,
        ended: &EndedCapture,
        owners: &[(LocationRef, LocationOwner)],
        archive: &mut Archive,
    ) -> Result<BTreeMap<ProcessKey, LocationGroupRef>, OtfError> {
        let keys = processes_with_location(&ended.tasks, owners);
        let mut groups = BTreeMap::new();
        for key in keys {
            let Some(process) = ended.tasks.process(key) else { continue };
            let info = &process.info;
            let name = format!("{} [{}]", named(&info.comm, "process"), info.pid);
            let rank = info.rank.or(place.rank);
            let name = match rank {
                Some(rank) => format!("rank {rank}: {name}"),
                None => name,
            };
            let mut properties = Vec::new();
            for (name, value) in identity(&ProcessInfo { rank, ..info.clone() }) {
                properties.push((archive.intern(name)?, archive.intern(&value)?));
            }
            let creator = info.parent.and_then(|parent| groups.get(&parent)).copied();
            let (name, pid) = (archive.intern(&name)?, info.pid.0);
            groups.insert(key, group_number(self.groups.len())?);
            self.groups.push(JobGroup { place, name, pid, creator, properties });
        }
        Ok(groups)
    }

    /// Number of a disk, which several captures of its host may have.
    fn device(
        &mut self,
        host: u32,
        name: String,
        number: &str,
        disk: Option<&Disk>,
        archive: &mut Archive,
    ) -> Result<usize, OtfError> {
        let known = |device: &JobDevice| device.host == host && device.name == name;
        if let Some(place) = self.devices.iter().position(known) {
            return Ok(place);
        }
        let mut texts = vec![("Device number".to_owned(), number.to_owned())];
        if let Some(disk) = disk {
            texts.push(("I/O scheduler".to_owned(), disk.scheduler.clone()));
            texts.extend(disk::properties(disk));
        }
        let mut properties = Vec::new();
        for (name, value) in texts.iter().filter(|(_, value)| !value.is_empty()) {
            let texts = [name, value].map(|text| printable(text.as_bytes()).into_owned());
            let [name, value] = texts;
            properties.push((archive.intern(&name)?, archive.intern(&value)?));
        }
        self.devices.push(JobDevice { host, name, properties });
        Ok(self.devices.len() - 1)
    }

    /// Writes hosts, processes, disks and locations.
    fn write(&self, hosts: &[JobHost], defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
        let (name, class) = (defs.string("Linux")?, defs.string("machine")?);
        defs.system_tree_node(MACHINE, name, class, None)?;
        defs.system_tree_node_domain(MACHINE, SystemTreeDomain::MACHINE)?;
        for (number, host) in (0..).zip(hosts) {
            let node = host_node(number);
            let name = defs.string(&printable(host.name.as_bytes()))?;
            let class = defs.string("node")?;
            defs.system_tree_node(node, name, class, Some(MACHINE))?;
            defs.system_tree_node_domain(node, SystemTreeDomain::SHARED_MEMORY)?;
            for (name, value) in &host.properties {
                node_property(node, name, value, defs)?;
            }
        }
        for (number, group) in self.groups.iter().enumerate() {
            write_group(group_number(number)?, group, defs)?;
        }
        let queues = self.write_devices(hosts, defs)?;
        for location in &self.locations {
            let (this, name) = (location.this, location.name);
            match location.owner {
                JobOwner::Thread { group, tid } => {
                    defs.location(this, name, LocationType::CPU_THREAD, group)?;
                    let property = defs.string("ThreadId")?;
                    defs.location_property(this, property, AttributeValue::Int32(tid))?;
                }
                JobOwner::Device(device) => {
                    let Some(&queue) = queues.get(device) else { continue };
                    defs.location(this, name, LocationType::CPU_THREAD, queue)?;
                }
                JobOwner::None => {
                    let (group, of) = (LocationGroupRef::new(0), defs.string("iotrace-perf")?);
                    let kind = LocationGroupType::PROCESS;
                    defs.location_group(group, of, kind, host_node(0), None)?;
                    defs.location(this, name, LocationType::CPU_THREAD, group)?;
                }
            }
        }
        Ok(())
    }

    /// Writes one node and one group for each disk; returns the groups.
    fn write_devices(
        &self,
        hosts: &[JobHost],
        defs: &mut GlobalDefs<'_>,
    ) -> Result<Vec<LocationGroupRef>, OtfError> {
        let (mut parents, mut queues) = (BTreeMap::new(), Vec::new());
        let mut next = u32::try_from(hosts.len() + 1).map_err(|_| OtfError::Full("node"))?;
        let mut take = || {
            next += 1;
            SystemTreeNodeRef::new(next - 1)
        };
        for device in &self.devices {
            let parent = if let Some(&known) = parents.get(&device.host) {
                known
            } else {
                let node = take();
                let (name, class) = (defs.string("block devices")?, defs.string("hardware")?);
                defs.system_tree_node(node, name, class, Some(host_node(device.host)))?;
                parents.insert(device.host, node);
                node
            };
            let node = take();
            let (name, class) = (defs.string(&device.name)?, defs.string("disk")?);
            defs.system_tree_node(node, name, class, Some(parent))?;
            for &(name, value) in &device.properties {
                defs.system_tree_node_property(node, name, AttributeValue::String(value))?;
            }
            let queue = group_number(self.groups.len() + queues.len())?;
            let name = defs.string(&format!("{} queue", device.name))?;
            defs.location_group(queue, name, LocationGroupType::PROCESS, node, None)?;
            queues.push(queue);
        }
        Ok(queues)
    }
}

/// Writes a process.
fn write_group(
    this: LocationGroupRef,
    group: &JobGroup,
    defs: &mut GlobalDefs<'_>,
) -> Result<(), OtfError> {
    let node = host_node(group.place.host);
    let kind = LocationGroupType::PROCESS;
    defs.location_group(this, group.name, kind, node, group.creator)?;
    let property = defs.string("ProcessId")?;
    defs.location_group_property(this, property, AttributeValue::Int32(group.pid))?;
    for &(name, value) in &group.properties {
        defs.location_group_property(this, name, AttributeValue::String(value))?;
    }
    Ok(())
}

/// Node of a host.
fn host_node(number: u32) -> SystemTreeNodeRef {
    SystemTreeNodeRef::new(number + 1)
}

fn group_number(number: usize) -> Result<LocationGroupRef, OtfError> {
    let number = u32::try_from(number).ok().filter(|&number| number < u32::MAX);
    number.map(LocationGroupRef::new).ok_or(OtfError::Full("location group"))
}

/// Data for all definitions of an archive of several captures.
pub(in crate::otf2) struct JobContext<'a> {
    pub(in crate::otf2) files: &'a FileDefinitions,
    pub(in crate::otf2) handles: &'a HandleTable,
    pub(in crate::otf2) regions: &'a Regions,
    pub(in crate::otf2) tree: &'a JobTree,
    pub(in crate::otf2) hosts: &'a [JobHost],
    pub(in crate::otf2) clock: JobClock,
}

impl JobContext<'_> {
    /// Writes all definitions, each kind before those that refer to it.
    pub(in crate::otf2) fn write(&self, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
        let JobClock { start, end, zero_wall_ns } = self.clock;
        let (first, last) = defs.event_times().unwrap_or((start, start));
        let offset = start.min(first);
        let length = end.max(last).saturating_sub(offset);
        let realtime = (zero_wall_ns > 0).then(|| zero_wall_ns.saturating_add(offset));
        defs.clock_properties(1_000_000_000, offset, length, realtime)?;
        attributes(defs)?;
        self.tree.write(self.hosts, defs)?;
        regions(self.regions, defs)?;
        for (id, file) in (0..).zip(self.files.list()) {
            let origin = file.origin.as_ref();
            let scope = origin.and_then(|origin| origin.host).map_or(MACHINE, host_node);
            let mount = origin.and_then(|origin| origin.mount.as_deref());
            write_file(IoFileRef::new(id), file, scope, mount, defs)?;
        }
        handles(self.handles, defs)?;
        if !self.tree.devices.is_empty() {
            metrics::write(defs)?;
        }
        Ok(())
    }
}
