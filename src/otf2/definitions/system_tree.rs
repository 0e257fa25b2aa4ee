//! System tree, processes and threads, devices.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use otf2_sys::{
    AttributeValue, GlobalDefs, LocationGroupRef, LocationGroupType, LocationRef, LocationType,
    SystemTreeDomain, SystemTreeNodeRef,
};

use super::finish_context::FinishContext;
use super::registry::LocationOwner;
use crate::operation::disk;
use crate::operation::model::{ProcessInfo, ProcessKey, ThreadKey};
use crate::otf2::error::OtfError;
use crate::otf2::tasks::TaskDefinitions;
use crate::otf2::text::printable;
use crate::units::DevId;

/// Root of all nodes: the scope of files on network file systems.
pub(super) const MACHINE: SystemTreeNodeRef = SystemTreeNodeRef::new(0);
/// Computer of the capture.
pub(super) const NODE: SystemTreeNodeRef = SystemTreeNodeRef::new(1);
/// Parent of the devices' nodes.
const BLOCK_DEVICES: SystemTreeNodeRef = SystemTreeNodeRef::new(2);

/// Writes these definitions.
pub(super) fn write(
    context: &FinishContext<'_>,
    defs: &mut GlobalDefs<'_>,
) -> Result<(), OtfError> {
    node(context, defs)?;
    let mut numbers = GroupNumbers::default();
    let processes = processes(context, &mut numbers, defs)?;
    let devices = devices(context, &mut numbers, defs)?;
    for &(this, owner) in context.owners {
        match owner {
            LocationOwner::None => nothing(this, defs)?,
            LocationOwner::Thread(key) => thread(context, key, &processes, this, defs)?,
            LocationOwner::Device(dev) => {
                let Some(&group) = devices.get(&dev) else { continue };
                let name = defs.string(&format!("{} requests", context.devices.name(dev)))?;
                defs.location(this, name, LocationType::CPU_THREAD, group)?;
            }
        }
    }
    Ok(())
}

/// Writes the machine and its one node.
fn node(context: &FinishContext<'_>, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
    let (name, class) = (defs.string("Linux")?, defs.string("machine")?);
    defs.system_tree_node(MACHINE, name, class, None)?;
    defs.system_tree_node_domain(MACHINE, SystemTreeDomain::MACHINE)?;
    let host = &context.capture.host;
    let hostname = if host.hostname.is_empty() { "localhost" } else { &host.hostname };
    let (name, class) = (defs.string(&printable(hostname.as_bytes()))?, defs.string("node")?);
    defs.system_tree_node(NODE, name, class, Some(MACHINE))?;
    defs.system_tree_node_domain(NODE, SystemTreeDomain::SHARED_MEMORY)?;
    let scope = &context.capture.scope;
    let (cpus, command) = (host.cpus.len().to_string(), scope.command.join(" "));
    let facts = [
        ("Kernel release", host.kernel_release.as_str()),
        ("Kernel version", &host.kernel_version),
        ("Architecture", &host.machine),
        ("CPUs", if host.cpus.is_empty() { "" } else { &cpus }),
        ("Capture mode", &scope.mode),
        ("Command", &command),
        ("File names", &context.capture.names),
        ("Tool version", &context.capture.tool_version),
    ];
    let properties =
        context.end.properties.iter().map(|property| (property.0.as_str(), property.1.as_str()));
    for (name, value) in facts.into_iter().chain(properties) {
        node_property(NODE, name, value, defs)?;
    }
    Ok(())
}

pub(super) fn node_property(
    node: SystemTreeNodeRef,
    name: &str,
    value: &str,
    defs: &mut GlobalDefs<'_>,
) -> Result<(), OtfError> {
    if value.is_empty() {
        return Ok(());
    }
    let (name, value) =
        (defs.string(&printable(name.as_bytes()))?, defs.string(&printable(value.as_bytes()))?);
    Ok(defs.system_tree_node_property(node, name, AttributeValue::String(value))?)
}

/// Writes one group per process that has a location, parents mostly before their children.
fn processes(
    context: &FinishContext<'_>,
    numbers: &mut GroupNumbers,
    defs: &mut GlobalDefs<'_>,
) -> Result<BTreeMap<ProcessKey, LocationGroupRef>, OtfError> {
    let keys = processes_with_location(context.tasks, context.owners);
    let mut groups = BTreeMap::new();
    for key in keys {
        let Some(process) = context.tasks.process(key) else { continue };
        let this = numbers.take();
        let name = defs.string(&format!(
            "{} [{}]",
            named(&process.info.comm, "process"),
            process.info.pid
        ))?;
        let creator = process.info.parent.and_then(|parent| groups.get(&parent)).copied();
        defs.location_group(this, name, LocationGroupType::PROCESS, NODE, creator)?;
        let property = defs.string("ProcessId")?;
        defs.location_group_property(this, property, AttributeValue::Int32(process.info.pid.0))?;
        for (name, value) in identity(&process.info) {
            let (property, value) = (defs.string(name)?, defs.string(&value)?);
            defs.location_group_property(this, property, AttributeValue::String(value))?;
        }
        groups.insert(key, this);
    }
    Ok(groups)
}

/// Processes of whose threads one has a location, in the order in which they were first seen.
pub(super) fn processes_with_location(
    tasks: &TaskDefinitions,
    owners: &[(LocationRef, LocationOwner)],
) -> BTreeSet<ProcessKey> {
    let threads = owners.iter().filter_map(|owner| match owner.1 {
        LocationOwner::Thread(key) => tasks.thread(key),
        LocationOwner::Device(_) | LocationOwner::None => None,
    });
    threads.map(|thread| thread.process).collect()
}

/// Properties of a process, as far as they are known.
pub(super) fn identity(info: &ProcessInfo) -> Vec<(&'static str, String)> {
    let bytes = |name, bytes: &Option<Arc<[u8]>>| {
        let bytes = bytes.as_ref()?;
        Some((name, printable(bytes).into_owned()))
    };
    let number = |name, number: Option<String>| number.map(|number| (name, number));
    let words = info.command_line().map(|line| ("CommandLine", printable(&line).into_owned()));
    let user = number("User", info.user.map(|user| user.to_string()));
    let parent = number("ParentProcessId", info.parent_pid.map(|pid| pid.to_string()));
    let (program, cgroup) =
        (bytes("Executable", &info.program), bytes("ControlGroup", &info.cgroup));
    let rank = number("Rank", info.rank.map(|rank| rank.to_string()));
    [parent, program, words, cgroup, user, rank].into_iter().flatten().collect()
}

/// Name, or its substitute if it is unknown.
pub(super) fn named<'a>(comm: &'a [u8], otherwise: &'a str) -> Cow<'a, str> {
    if comm.is_empty() { Cow::Borrowed(otherwise) } else { printable(comm) }
}

/// Writes a thread. Its name differs from the group's: a reader aborts where both are the same.
fn thread(
    context: &FinishContext<'_>,
    key: ThreadKey,
    processes: &BTreeMap<ProcessKey, LocationGroupRef>,
    this: LocationRef,
    defs: &mut GlobalDefs<'_>,
) -> Result<(), OtfError> {
    let Some(thread) = context.tasks.thread(key) else { return Ok(()) };
    let Some(&group) = processes.get(&thread.process) else { return Ok(()) };
    let name = defs.string(&format!("{}:{}", named(&thread.comm, "thread"), thread.tid))?;
    defs.location(this, name, LocationType::CPU_THREAD, group)?;
    let property = defs.string("ThreadId")?;
    Ok(defs.location_property(this, property, AttributeValue::Int32(thread.tid.0))?)
}

/// Writes one node and one group per device that has had a request.
fn devices(
    context: &FinishContext<'_>,
    numbers: &mut GroupNumbers,
    defs: &mut GlobalDefs<'_>,
) -> Result<BTreeMap<DevId, LocationGroupRef>, OtfError> {
    let mut groups = BTreeMap::new();
    let devices = context.owners.iter().filter_map(|owner| match owner.1 {
        LocationOwner::Device(dev) => Some(dev),
        LocationOwner::Thread(_) | LocationOwner::None => None,
    });
    for (id, dev) in (3..).zip(devices) {
        if groups.is_empty() {
            let (name, class) = (defs.string("block devices")?, defs.string("hardware")?);
            defs.system_tree_node(BLOCK_DEVICES, name, class, Some(NODE))?;
        }
        let node = SystemTreeNodeRef::new(id);
        let text = context.devices.name(dev);
        let (name, class) = (defs.string(&text)?, defs.string("disk")?);
        defs.system_tree_node(node, name, class, Some(BLOCK_DEVICES))?;
        node_property(node, "Device number", &dev.to_string(), defs)?;
        let number = dev.to_string();
        if let Some(disk) = context.end.disks.iter().find(|disk| disk.dev == number) {
            node_property(node, "I/O scheduler", &disk.scheduler, defs)?;
            for (name, value) in disk::properties(disk) {
                node_property(node, &name, &value, defs)?;
            }
        }
        let group = numbers.take();
        let name = defs.string(&format!("{text} queue"))?;
        defs.location_group(group, name, LocationGroupType::PROCESS, node, None)?;
        groups.insert(dev, group);
    }
    Ok(groups)
}

/// Writes the one location of a trace without events.
fn nothing(this: LocationRef, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
    let (group_name, name) = (defs.string("iotrace-perf")?, defs.string("nothing recorded")?);
    let group = LocationGroupRef::new(0);
    defs.location_group(group, group_name, LocationGroupType::PROCESS, NODE, None)?;
    Ok(defs.location(this, name, LocationType::CPU_THREAD, group)?)
}

/// Counter of location groups.
#[derive(Debug, Default)]
struct GroupNumbers(u32);

impl GroupNumbers {
    /// Next number.
    fn take(&mut self) -> LocationGroupRef {
        self.0 += 1;
        LocationGroupRef::new(self.0 - 1)
    }
}
