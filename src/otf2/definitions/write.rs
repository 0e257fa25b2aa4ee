//! Definitions, written at the end: the meanings of the numbers in events.

use std::collections::BTreeMap;

use otf2_sys::{
    AttributeValue, GlobalDefs, IoFileRef, IoHandleFlags, IoHandleRef, IoParadigm, IoParadigmClass,
    IoParadigmFlags, IoParadigmRef, Region, RegionFlags, RegionRef, SystemTreeNodeRef,
};

use super::finish_context::FinishContext;
use super::registry::LocationOwner;
use super::system_tree::{MACHINE, NODE};
use super::{metrics, system_tree};
use crate::operation::shared_files::is_network;
use crate::otf2::attributes::ATTRIBUTES;
use crate::otf2::error::OtfError;
use crate::otf2::files::FileDefinition;
use crate::otf2::handles::{HandleLayer, HandleTable};
use crate::otf2::mounts;
use crate::otf2::regions::Regions;

impl FinishContext<'_> {
    /// Writes all definitions, each kind before those that refer to it.
    pub(in crate::otf2) fn write(&self, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
        self.clock(defs)?;
        attributes(defs)?;
        system_tree::write(self, defs)?;
        regions(self.regions, defs)?;
        self.files(defs)?;
        handles(self.handles, defs)?;
        if self.owners.iter().any(|owner| matches!(owner.1, LocationOwner::Device(_))) {
            metrics::write(defs)?;
        }
        Ok(())
    }

    /// Writes the clock: from the start of the capture, or the first event if that is earlier, to
    /// the end or the last event.
    fn clock(&self, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
        let clock = &self.capture.clock;
        let (first, last) = defs.event_times().unwrap_or((u64::MAX, 0));
        let start = match clock.start_ns {
            // The header has no clock.
            0 if first < u64::MAX => first,
            known => known,
        };
        let offset = start.min(first);
        let length = self.end.end_time.0.max(last).saturating_sub(offset);
        let is_known = clock.start_ns > 0 && clock.start_realtime_ns > 0;
        let realtime = clock.start_realtime_ns.saturating_sub(start - offset);
        Ok(defs.clock_properties(1_000_000_000, offset, length, is_known.then_some(realtime))?)
    }

    fn files(&self, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
        (0..)
            .zip(self.files.list())
            .try_for_each(|(id, file)| self.file(IoFileRef::new(id), file, defs))
    }

    fn file(
        &self,
        this: IoFileRef,
        file: &FileDefinition,
        defs: &mut GlobalDefs<'_>,
    ) -> Result<(), OtfError> {
        // The tracer's mounts are not valid in other namespaces.
        let mount =
            if file.mount_namespace().is_none() { self.mounts.of_path(&file.path) } else { None };
        let scope = if mount.is_some_and(is_network) { MACHINE } else { NODE };
        write_file(this, file, scope, mount.map(mounts::properties).as_ref(), defs)
    }
}

/// Writes the attributes of events.
pub(super) fn attributes(defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
    for attribute in ATTRIBUTES {
        let (name, description) =
            (defs.string(attribute.name)?, defs.string(attribute.description)?);
        defs.attribute(attribute.this, name, description, attribute.value_type)?;
    }
    Ok(())
}

/// Writes the regions.
pub(super) fn regions(regions: &Regions, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
    let empty = defs.string("")?;
    for (id, region) in (0..).zip(regions.list()) {
        let name = defs.string(region.name())?;
        let definition = Region {
            name,
            canonical_name: name,
            description: empty,
            role: region.role(),
            paradigm: otf2_sys::Paradigm::NONE,
            flags: RegionFlags::NONE,
            source_file: defs.string(region.source_file())?,
            begin_line: 0,
            end_line: 0,
        };
        defs.region(RegionRef::new(id), &definition)?;
    }
    Ok(())
}

/// Writes a file with its scope, and mount point, source and type of its file system.
pub(super) fn write_file(
    this: IoFileRef,
    file: &FileDefinition,
    scope: SystemTreeNodeRef,
    mount: Option<&[String; 3]>,
    defs: &mut GlobalDefs<'_>,
) -> Result<(), OtfError> {
    if file.is_directory {
        defs.io_directory(this, file.name, scope)?;
    } else {
        defs.io_regular_file(this, file.name, scope)?;
    }
    let part = |number: usize| mount.and_then(|mount| mount.get(number)).map(String::as_str);
    let namespace = file.mount_namespace();
    let properties = [
        ("Mount Point", part(0)),
        ("Mount Source", part(1)),
        ("File system", part(2)),
        ("Name certainty", file.certainty.remark().filter(|_| !file.is_collective)),
        ("Stands for", file.is_collective.then_some("files in it that the archive does not name")),
        ("Mount namespace", namespace.as_deref()),
    ];
    for (name, value) in properties {
        if let Some(value) = value {
            let (name, value) = (defs.string(name)?, defs.string(value)?);
            defs.io_file_property(this, name, AttributeValue::String(value))?;
        }
    }
    Ok(())
}

/// Writes the handles, and the layers before them.
pub(super) fn handles(table: &HandleTable, defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
    let paradigms = paradigms(table, defs)?;
    for (id, handle) in (0..).zip(table.list()) {
        let this = IoHandleRef::new(id);
        let Some(&paradigm) = paradigms.get(&handle.layer) else { continue };
        let is_pre_created = handle.pre_created.is_some();
        let flags = if is_pre_created { IoHandleFlags::PRE_CREATED } else { IoHandleFlags::NONE };
        defs.io_handle(this, handle.name, handle.file, paradigm, flags, None)?;
        if let Some((mode, status)) = handle.pre_created {
            defs.io_pre_created_handle_state(this, mode, status)?;
        }
    }
    Ok(())
}

/// Writes the layers that occurred. POSIX always exists.
fn paradigms(
    table: &HandleTable,
    defs: &mut GlobalDefs<'_>,
) -> Result<BTreeMap<HandleLayer, IoParadigmRef>, OtfError> {
    let occurs =
        |layer| layer == HandleLayer::Posix || table.list().iter().any(|list| list.layer == layer);
    let mut paradigms = BTreeMap::new();
    for (id, layer) in (0..).zip(HandleLayer::ALL.into_iter().filter(|&all| occurs(all))) {
        let (identification, name) = layer.names();
        let definition = IoParadigm {
            identification: defs.string(identification)?,
            name: defs.string(name)?,
            class: IoParadigmClass::SERIAL,
            flags: IoParadigmFlags::OS,
            properties: &[],
        };
        defs.io_paradigm(IoParadigmRef::new(id), &definition)?;
        paradigms.insert(layer, IoParadigmRef::new(id));
    }
    Ok(paradigms)
}
