//! The global definitions, written once at the end.
//!
//! Readers are not robust: `otf2-print` crashes on a reference to a string that does not exist, the
//! Python reader gives up on any forward reference, and both want dense ids in ascending order. So
//! every definition is checked here before it is written.

use std::ptr::NonNull;

use crate::archive::Shared;
use crate::attributes::AttributeValue;
use crate::constants::{
    OTF2_UNDEFINED_LOCATION_GROUP, OTF2_UNDEFINED_SYSTEM_TREE_NODE, OTF2_UNDEFINED_TIMESTAMP,
};
use crate::error::{Error, Result, checked_pointer};
use crate::ffi as c;
use crate::ffi::{OTF2_ErrorCode, OTF2_GlobalDefWriter};
use crate::library::is_version_2;
use crate::refs::{AttributeRef, LocationGroupRef, LocationRef, StringRef, SystemTreeNodeRef};
use crate::strings::terminated;
use crate::values::{AttributeType, LocationGroupType, LocationType, SystemTreeDomain};

/// Number of definitions of a kind.
#[derive(Debug)]
pub(crate) struct Count {
    kind: &'static str,
    next: u64,
}

impl Count {
    const fn of(kind: &'static str) -> Self {
        Self { kind, next: 0 }
    }

    /// Takes the id of a new definition: it must be the next one.
    pub(crate) fn define(&mut self, id: impl Into<u64>) -> Result<()> {
        let given = id.into();
        if given != self.next {
            return Err(Error::NotDense { kind: self.kind, given, expected: self.next });
        }
        self.next += 1;
        Ok(())
    }

    /// Checks a reference: it must be defined.
    pub(crate) fn refer(&self, id: impl Into<u64>) -> Result<()> {
        let id = id.into();
        if id < self.next { Ok(()) } else { Err(Error::Dangling { kind: self.kind, id }) }
    }
}

/// Writer of the global definitions, passed to the closure of
/// [`Archive::finish`](crate::Archive::finish).
///
/// Each method that defines something takes its reference. References of a kind must be 0, 1, 2, …
/// in this order and refer only to earlier definitions. Otherwise a method fails with
/// [`Error::NotDense`] or [`Error::Dangling`]. It also fails with errors of the library, such as a
/// full disk.
#[derive(Debug)]
pub struct GlobalDefs<'a> {
    shared: &'a Shared,
    raw: NonNull<OTF2_GlobalDefWriter>,
    text_buffer: Vec<u8>,
    has_clock: bool,
    pub(crate) strings: Count,
    pub(crate) nodes: Count,
    pub(crate) groups: Count,
    pub(crate) locations: Count,
    pub(crate) regions: Count,
    pub(crate) paradigms: Count,
    pub(crate) files: Count,
    pub(crate) handles: Count,
    attributes: Count,
    pub(crate) members: Count,
    pub(crate) metrics: Count,
}

impl<'a> GlobalDefs<'a> {
    /// Opens the file and writes the strings so far.
    pub(crate) fn open(shared: &'a Shared) -> Result<Self> {
        let archive = shared.archive()?;
        let raw = checked_pointer(
            "write",
            || "the global definitions".into(),
            || {
                // SAFETY: the archive is open, and so is the only writer of its definitions.
                unsafe { c::OTF2_Archive_GetGlobalDefWriter(archive) }
            },
        )?;
        let mut defs = Self {
            shared,
            raw,
            text_buffer: Vec::new(),
            has_clock: false,
            strings: Count::of("string"),
            nodes: Count::of("system tree node"),
            groups: Count::of("location group"),
            locations: Count::of("location"),
            regions: Count::of("region"),
            paradigms: Count::of("I/O paradigm"),
            files: Count::of("I/O file"),
            handles: Count::of("I/O handle"),
            attributes: Count::of("attribute"),
            members: Count::of("metric member"),
            metrics: Count::of("metric"),
        };
        defs.write_new_strings()?;
        Ok(defs)
    }

    /// Checks that the required definitions were written, and closes the file.
    pub(crate) fn close(self) -> Result<()> {
        if !self.has_clock {
            return Err(Error::NoClock);
        }
        if self.locations.next == 0 && self.shared.locations.borrow().is_empty() {
            // Readers refuse such an archive.
            return Err(Error::NoLocation);
        }
        if self.locations.next < self.shared.locations.borrow().len() as u64 {
            return Err(Error::LocationUndefined(self.locations.next));
        }
        let raw = self.raw;
        self.shared.call(
            "write",
            || "the global definitions".into(),
            |archive| {
                // SAFETY: the writer is of this archive; `self` is consumed, so it is closed once.
                unsafe { c::OTF2_Archive_CloseGlobalDefWriter(archive, raw.as_ptr()) }
            },
        )
    }

    /// Runs the call that writes one definition.
    pub(crate) fn write(
        &self,
        kind: &'static str,
        call: impl FnOnce(*mut OTF2_GlobalDefWriter) -> OTF2_ErrorCode,
    ) -> Result<()> {
        self.shared.call("define", || format!("a {kind}"), |_archive| call(self.raw.as_ptr()))
    }

    fn write_new_strings(&mut self) -> Result<()> {
        let strings = self.shared.strings.borrow();
        while let Ok(index) = usize::try_from(self.strings.next)
            && let Some(text) = strings.text(index)
        {
            let id = u32::try_from(self.strings.next).map_err(|_| Error::TooManyStrings)?;
            let text = terminated(text, &mut self.text_buffer);
            let raw = self.raw.as_ptr();
            self.shared.call(
                "define",
                || "a string".into(),
                |_archive| {
                    // SAFETY: the writer is open; the text is NUL-terminated and copied.
                    unsafe { c::OTF2_GlobalDefWriter_WriteString(raw, id, text.as_ptr()) }
                },
            )?;
            self.strings.define(id)?;
        }
        Ok(())
    }

    pub(crate) fn check_value(&self, value: AttributeValue) -> Result<()> {
        match value {
            AttributeValue::String(text) => self.strings.refer(text.id()),
            AttributeValue::Uint32(_)
            | AttributeValue::Uint64(_)
            | AttributeValue::Int32(_)
            | AttributeValue::Int64(_)
            | AttributeValue::Double(_) => Ok(()),
        }
    }

    /// Times of the first and the last event of the archive, in ticks.
    #[must_use]
    pub fn event_times(&self) -> Option<(u64, u64)> {
        self.shared.event_times.get()
    }

    /// Number of events of the location.
    #[must_use]
    pub fn events(&self, location: LocationRef) -> u64 {
        let locations = self.shared.locations.borrow();
        let index = usize::try_from(location.id()).unwrap_or(usize::MAX);
        locations.get(index).map_or(0, |totals| totals.events)
    }
}

#[expect(clippy::missing_errors_doc, reason = "the same for all, see `GlobalDefs`")]
impl GlobalDefs<'_> {
    /// Returns the reference of `text`, as [`Archive::intern`](crate::Archive::intern) does.
    pub fn string(&mut self, text: &str) -> Result<StringRef> {
        let id = self.shared.strings.borrow_mut().intern(text)?;
        self.write_new_strings()?;
        Ok(id)
    }

    /// The clock: ticks per second, the tick at which the trace begins, its length in ticks, and
    /// the nanoseconds from 1970 to its beginning (not stored by OTF2 2.x). [`Error::ClockRange`]
    /// if an event lies outside.
    pub fn clock_properties(
        &mut self,
        resolution: u64,
        offset: u64,
        length: u64,
        realtime_ns: Option<u64>,
    ) -> Result<()> {
        if let Some((first, last)) = self.event_times()
            && (first < offset || last > offset.saturating_add(length))
        {
            return Err(Error::ClockRange { first, last });
        }
        self.write("clock", |writer| {
            if is_version_2() {
                // SAFETY: the writer is open; the rest are numbers to the library.
                return unsafe {
                    c::OTF2_GlobalDefWriter_WriteClockProperties_2(
                        writer, resolution, offset, length,
                    )
                };
            }
            let realtime = realtime_ns.unwrap_or(OTF2_UNDEFINED_TIMESTAMP);
            // SAFETY: as above.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteClockProperties(
                    writer, resolution, offset, length, realtime,
                )
            }
        })?;
        self.has_clock = true;
        Ok(())
    }

    /// A name and type of additional event values.
    pub fn attribute(
        &mut self,
        this: AttributeRef,
        name: StringRef,
        description: StringRef,
        attribute_type: AttributeType,
    ) -> Result<()> {
        self.strings.refer(name.id())?;
        self.strings.refer(description.id())?;
        self.attributes.define(this.id())?;
        self.write("attribute", |writer| {
            let (this, name, text) = (this.id(), name.id(), description.id());
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteAttribute(writer, this, name, text, attribute_type.0)
            }
        })
    }

    /// A node of the system tree; `None` as its parent makes it a root.
    pub fn system_tree_node(
        &mut self,
        this: SystemTreeNodeRef,
        name: StringRef,
        class: StringRef,
        parent: Option<SystemTreeNodeRef>,
    ) -> Result<()> {
        self.strings.refer(name.id())?;
        self.strings.refer(class.id())?;
        parent.map_or(Ok(()), |parent| self.nodes.refer(parent.id()))?;
        self.nodes.define(this.id())?;
        self.write("system tree node", |writer| {
            let parent = parent.map_or(OTF2_UNDEFINED_SYSTEM_TREE_NODE, SystemTreeNodeRef::id);
            let (this, name, class) = (this.id(), name.id(), class.id());
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteSystemTreeNode(writer, this, name, class, parent)
            }
        })
    }

    /// Defines a kind of resource of a node; a node may have several.
    pub fn system_tree_node_domain(
        &mut self,
        node: SystemTreeNodeRef,
        domain: SystemTreeDomain,
    ) -> Result<()> {
        self.nodes.refer(node.id())?;
        self.write("system tree node domain", |writer| {
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain(writer, node.id(), domain.0)
            }
        })
    }

    /// A fact about a node.
    pub fn system_tree_node_property(
        &mut self,
        node: SystemTreeNodeRef,
        name: StringRef,
        value: AttributeValue,
    ) -> Result<()> {
        self.nodes.refer(node.id())?;
        self.strings.refer(name.id())?;
        self.check_value(value)?;
        let (type_, value) = value.to_c();
        self.write("system tree node property", |writer| {
            let (node, name) = (node.id(), name.id());
            // SAFETY: the writer is open; the value is initialised for `type_`.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteSystemTreeNodeProperty(
                    writer, node, name, type_, value,
                )
            }
        })
    }

    /// A location group, usually a process, on a node of the system tree. `creator` is the group
    /// that created it (not stored by OTF2 2.x).
    pub fn location_group(
        &mut self,
        this: LocationGroupRef,
        name: StringRef,
        group_type: LocationGroupType,
        node: SystemTreeNodeRef,
        creator: Option<LocationGroupRef>,
    ) -> Result<()> {
        self.strings.refer(name.id())?;
        self.nodes.refer(node.id())?;
        creator.map_or(Ok(()), |creator| self.groups.refer(creator.id()))?;
        self.groups.define(this.id())?;
        self.write("location group", |writer| {
            let (this, name, node) = (this.id(), name.id(), node.id());
            if is_version_2() {
                // SAFETY: the writer is open; the rest are numbers to the library.
                return unsafe {
                    c::OTF2_GlobalDefWriter_WriteLocationGroup_2(
                        writer,
                        this,
                        name,
                        group_type.0,
                        node,
                    )
                };
            }
            let creator = creator.map_or(OTF2_UNDEFINED_LOCATION_GROUP, LocationGroupRef::id);
            // SAFETY: as above.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteLocationGroup(
                    writer,
                    this,
                    name,
                    group_type.0,
                    node,
                    creator,
                )
            }
        })
    }

    /// A fact about a location group.
    pub fn location_group_property(
        &mut self,
        group: LocationGroupRef,
        name: StringRef,
        value: AttributeValue,
    ) -> Result<()> {
        self.groups.refer(group.id())?;
        self.strings.refer(name.id())?;
        self.check_value(value)?;
        let (type_, value) = value.to_c();
        self.write("location group property", |writer| {
            let (group, name) = (group.id(), name.id());
            // SAFETY: the writer is open; the value is initialised for `type_`.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteLocationGroupProperty(
                    writer, group, name, type_, value,
                )
            }
        })
    }

    /// A location, usually a thread. Its number of events is known. Every location that had an
    /// event writer needs a definition, in the order of their ids.
    pub fn location(
        &mut self,
        this: LocationRef,
        name: StringRef,
        location_type: LocationType,
        group: LocationGroupRef,
    ) -> Result<()> {
        self.strings.refer(name.id())?;
        self.groups.refer(group.id())?;
        if this.id() >= self.shared.locations.borrow().len() as u64 {
            return Err(Error::Dangling { kind: "location", id: this.id() });
        }
        self.locations.define(this.id())?;
        let events = self.events(this);
        self.write("location", |writer| {
            let (this, name, group) = (this.id(), name.id(), group.id());
            // SAFETY: the writer is open; the rest are numbers to the library.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteLocation(
                    writer,
                    this,
                    name,
                    location_type.0,
                    events,
                    group,
                )
            }
        })
    }

    /// A fact about a location.
    pub fn location_property(
        &mut self,
        location: LocationRef,
        name: StringRef,
        value: AttributeValue,
    ) -> Result<()> {
        self.locations.refer(location.id())?;
        self.strings.refer(name.id())?;
        self.check_value(value)?;
        let (type_, value) = value.to_c();
        self.write("location property", |writer| {
            let (location, name) = (location.id(), name.id());
            // SAFETY: the writer is open; the value is initialised for `type_`.
            unsafe {
                c::OTF2_GlobalDefWriter_WriteLocationProperty(writer, location, name, type_, value)
            }
        })
    }
}
