//! Definitions that events refer to: regions, I/O paradigms, files, handles, metrics.

use crate::attributes::AttributeValue;
use crate::constants::{
    OTF2_TYPE_UINT64, OTF2_UNDEFINED_COMM, OTF2_UNDEFINED_IO_FILE, OTF2_UNDEFINED_IO_HANDLE,
};
use crate::definitions::GlobalDefs;
use crate::entities::{IoParadigm, MetricMember, Region};
use crate::error::{Error, Result};
use crate::ffi as c;
use crate::refs::{
    IoFileRef, IoHandleRef, IoParadigmRef, LocationRef, MetricMemberRef, MetricRef, RegionRef,
    StringRef, SystemTreeNodeRef,
};
use crate::values::{
    IoAccessMode, IoHandleFlags, IoStatusFlags, MetricOccurrence, MetricScope, RecorderKind,
};

#[expect(clippy::missing_errors_doc, reason = "the same for all, see `GlobalDefs`")]
impl GlobalDefs<'_> {
    /// A region.
    pub fn region(&mut self, this: RegionRef, region: &Region) -> Result<()> {
        for text in [region.name, region.canonical_name, region.description, region.source_file] {
            self.strings.refer(text.id())?;
        }
        self.regions.define(this.id())?;
        self.write("region", |writer| {
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteRegion(
                    writer,
                    this.id(),
                    region.name.id(),
                    region.canonical_name.id(),
                    region.description.id(),
                    region.role.0,
                    region.paradigm.0,
                    region.flags.0,
                    region.source_file.id(),
                    region.begin_line,
                    region.end_line,
                )
            }
        })
    }

    /// An I/O paradigm. [`Error::TooMany`] for more than 255 properties.
    pub fn io_paradigm(&mut self, this: IoParadigmRef, paradigm: &IoParadigm<'_>) -> Result<()> {
        self.strings.refer(paradigm.identification.id())?;
        self.strings.refer(paradigm.name.id())?;
        let given = paradigm.properties.len();
        let count = u8::try_from(given).map_err(|_| Error::TooMany {
            what: "I/O paradigm properties",
            given,
            max: usize::from(u8::MAX),
        })?;
        let (mut names, mut types, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for &(name, value) in paradigm.properties {
            self.check_value(value)?;
            let (type_, value) = value.to_c();
            names.push(name.0);
            types.push(type_);
            values.push(value);
        }
        self.paradigms.define(this.id())?;
        self.write("I/O paradigm", |writer| {
            // SAFETY: the writer is open; the three arrays have `count` elements, and each value is
            // initialised for its type.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteIoParadigm(
                    writer,
                    this.id(),
                    paradigm.identification.id(),
                    paradigm.name.id(),
                    paradigm.class.0,
                    paradigm.flags.0,
                    count,
                    names.as_ptr(),
                    types.as_ptr(),
                    values.as_ptr(),
                )
            }
        })
    }

    /// Defines a regular file. `scope` is the part of the system that can see it under this name.
    pub fn io_regular_file(
        &mut self,
        this: IoFileRef,
        name: StringRef,
        scope: SystemTreeNodeRef,
    ) -> Result<()> {
        self.strings.refer(name.id())?;
        self.nodes.refer(scope.id())?;
        self.files.define(this.id())?;
        self.write("file", |writer| {
            let (this, name, scope) = (this.id(), name.id(), scope.id());
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe { c::OTF2_GlobalDefWriter_WriteIoRegularFile(writer, this, name, scope) }
        })
    }

    /// A directory; it shares its ids with regular files.
    pub fn io_directory(
        &mut self,
        this: IoFileRef,
        name: StringRef,
        scope: SystemTreeNodeRef,
    ) -> Result<()> {
        self.strings.refer(name.id())?;
        self.nodes.refer(scope.id())?;
        self.files.define(this.id())?;
        self.write("directory", |writer| {
            let (this, name, scope) = (this.id(), name.id(), scope.id());
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe { c::OTF2_GlobalDefWriter_WriteIoDirectory(writer, this, name, scope) }
        })
    }

    /// Defines a property of a file or directory.
    pub fn io_file_property(
        &mut self,
        file: IoFileRef,
        name: StringRef,
        value: AttributeValue,
    ) -> Result<()> {
        self.files.refer(file.id())?;
        self.strings.refer(name.id())?;
        self.check_value(value)?;
        let (type_, value) = value.to_c();
        self.write("file property", |writer| {
            let (file, name) = (file.id(), name.id());
            // SAFETY: the writer is open; the value is initialised for `type_`.
            unsafe { c::OTF2_GlobalDefWriter_WriteIoFileProperty(writer, file, name, type_, value) }
        })
    }

    /// An I/O handle of a serial paradigm. With an empty name readers show the file's. `parent` is
    /// the handle of a higher layer that this one serves.
    pub fn io_handle(
        &mut self,
        this: IoHandleRef,
        name: StringRef,
        file: Option<IoFileRef>,
        paradigm: IoParadigmRef,
        flags: IoHandleFlags,
        parent: Option<IoHandleRef>,
    ) -> Result<()> {
        self.strings.refer(name.id())?;
        file.map_or(Ok(()), |file| self.files.refer(file.id()))?;
        self.paradigms.refer(paradigm.id())?;
        parent.map_or(Ok(()), |parent| self.handles.refer(parent.id()))?;
        self.handles.define(this.id())?;
        self.write("I/O handle", |writer| {
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteIoHandle(
                    writer,
                    this.id(),
                    name.id(),
                    file.map_or(OTF2_UNDEFINED_IO_FILE, IoFileRef::id),
                    paradigm.id(),
                    flags.0,
                    OTF2_UNDEFINED_COMM,
                    parent.map_or(OTF2_UNDEFINED_IO_HANDLE, IoHandleRef::id),
                )
            }
        })
    }

    /// Defines the state of a `PRE_CREATED` handle at the beginning; exactly once for each of them.
    pub fn io_pre_created_handle_state(
        &mut self,
        handle: IoHandleRef,
        mode: IoAccessMode,
        status: IoStatusFlags,
    ) -> Result<()> {
        self.handles.refer(handle.id())?;
        self.write("pre-created handle state", |writer| {
            let (handle, mode, status) = (handle.id(), mode.0, status.0);
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteIoPreCreatedHandleState(writer, handle, mode, status)
            }
        })
    }

    /// One quantity of a metric; its values are unsigned 64-bit numbers.
    pub fn metric_member(&mut self, this: MetricMemberRef, member: &MetricMember) -> Result<()> {
        for text in [member.name, member.description, member.unit] {
            self.strings.refer(text.id())?;
        }
        self.members.define(this.id())?;
        self.write("metric member", |writer| {
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteMetricMember(
                    writer,
                    this.id(),
                    member.name.id(),
                    member.description.id(),
                    member.metric_type.0,
                    member.mode.0,
                    OTF2_TYPE_UINT64,
                    member.base.0,
                    member.exponent,
                    member.unit.id(),
                )
            }
        })
    }

    /// A metric: quantities that are recorded together. [`Error::TooMany`] for more than 255.
    pub fn metric_class(
        &mut self,
        this: MetricRef,
        members: &[MetricMemberRef],
        occurrence: MetricOccurrence,
        recorder: RecorderKind,
    ) -> Result<()> {
        let ids: Vec<u32> = members.iter().map(|member| member.id()).collect();
        for &id in &ids {
            self.members.refer(id)?;
        }
        let (given, max) = (ids.len(), usize::from(u8::MAX));
        let count = u8::try_from(given).map_err(|_| Error::TooMany {
            what: "metric members",
            given,
            max,
        })?;
        self.metrics.define(this.id())?;
        self.write("metric class", |writer| {
            let (this, occurrence, recorder) = (this.id(), occurrence.0, recorder.0);
            // SAFETY: the writer is open; the array has `count` elements.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteMetricClass(
                    writer,
                    this,
                    count,
                    ids.as_ptr(),
                    occurrence,
                    recorder,
                )
            }
        })
    }

    /// A metric class recorded by one location about something else: `scope_id` is the id of a
    /// location, location group or system tree node. It shares its ids with metric classes.
    pub fn metric_instance(
        &mut self,
        this: MetricRef,
        class: MetricRef,
        recorder: LocationRef,
        scope: MetricScope,
        scope_id: u64,
    ) -> Result<()> {
        self.metrics.refer(class.id())?;
        self.locations.refer(recorder.id())?;
        match scope {
            MetricScope::LOCATION => self.locations.refer(scope_id)?,
            MetricScope::LOCATION_GROUP => self.groups.refer(scope_id)?,
            MetricScope::SYSTEM_TREE_NODE => self.nodes.refer(scope_id)?,
            _ => return Err(Error::Dangling { kind: "metric scope", id: scope_id }),
        }
        self.metrics.define(this.id())?;
        self.write("metric instance", |writer| {
            let (this, class, recorder) = (this.id(), class.id(), recorder.id());
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteMetricInstance(
                    writer, this, class, recorder, scope.0, scope_id,
                )
            }
        })
    }
}
