//! A safe writer of OTF2 archives over the OTF2 C library (2.3 to 3.2).
//!
//! ```text
//!   Archive::create ──► event_writer() ──► EvtWriter: enter, io_operation_begin, …   (any number)
//!        │                    ▲                 │
//!        │ intern(&str)       └── location ids  ▼
//!        │                              close_event_writer(writer) ──► events of the location
//!        ▼
//!      finish(|defs| …) ──► local definitions, strings, global definitions, anchor file
//! ```
//!
//! An archive is `NAME.otf2` (the anchor, written last), `NAME.def` and the directory `NAME/` with
//! one `.evt` and one `.def` file per location. It is readable only once [`Archive::finish`] has
//! returned `Ok`; an archive that failed or was dropped before has no anchor file.
//!
//! ```
//! use otf2_sys::{
//!     Archive, LocationGroupRef, LocationGroupType, LocationType, Options, Paradigm, Region,
//!     RegionFlags, RegionRef, RegionRole, SystemTreeNodeRef,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = std::env::temp_dir().join(format!("otf2-sys-example-{}", std::process::id()));
//! std::fs::create_dir(&dir)?;
//! let (node, group, read) =
//!     (SystemTreeNodeRef::new(0), LocationGroupRef::new(0), RegionRef::new(0));
//!
//! // One thread that is in the region `read` from 100 to 190.
//! let mut archive = Archive::create(&dir, "trace", Options::default())?;
//! let mut thread = archive.event_writer()?;
//! let location = thread.location();
//! thread.enter(100, read, &[])?;
//! thread.leave(190, read, &[])?;
//! archive.close_event_writer(thread)?;
//!
//! archive.finish(|defs| {
//!     defs.clock_properties(1_000_000_000, 100, 91, None)?;
//!     let (host, class) = (defs.string("host")?, defs.string("node")?);
//!     let (name, empty) = (defs.string("read")?, defs.string("")?);
//!     defs.system_tree_node(node, host, class, None)?;
//!     defs.location_group(group, host, LocationGroupType::PROCESS, node, None)?;
//!     defs.location(location, host, LocationType::CPU_THREAD, group)?;
//!     let region = Region {
//!         name,
//!         canonical_name: name,
//!         description: empty,
//!         role: RegionRole::FILE_IO,
//!         paradigm: Paradigm::NONE,
//!         flags: RegionFlags::NONE,
//!         source_file: empty,
//!         begin_line: 0,
//!         end_line: 0,
//!     };
//!     defs.region(read, &region)
//! })?;
//! assert!(dir.join("trace.otf2").exists());
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok(())
//! # }
//! ```
//!
//! The writer ensures the following, because OTF2 does not:
//!
//! * an existing archive is refused, never overwritten;
//! * events of one location never go back in time (they are moved to the location's last time and
//!   counted), because OTF2 would drop them;
//! * the memory of events that are not yet written has one budget for any number of locations,
//!   and the number of open event files has a limit;
//! * definitions are dense, in order, and refer only to existing ones, because readers crash on or
//!   refuse anything else;
//! * the library prints nothing: its reports become an [`Error`].
//!
//! An archive and its writers belong to one thread (they are `!Send`): OTF2 hangs now and then
//! when several threads open and close writers.
//!
//! `unsafe` is confined to this crate's calls of C and to the callbacks that C calls.

#![expect(unsafe_code, reason = "this crate is the boundary to the OTF2 C library")]

mod archive;
mod attributes;
mod bytes;
mod chunks;
mod constants;
mod definitions;
mod entities;
mod error;
mod events;
mod ffi;
mod io_definitions;
mod library;
mod library_writer;
mod memory;
mod record;
mod refs;
mod spool;
mod strings;
mod values;
mod waiting;

pub use archive::{Archive, Options};
pub use attributes::AttributeValue;
pub use definitions::GlobalDefs;
pub use entities::{IoParadigm, MetricMember, Region};
pub use error::{Error, LibraryError, Result};
pub use events::{EvtWriter, IoBegin};
pub use library::{IS_STATIC, LibraryIdentity, library};
pub use memory::MemoryUse;
pub use refs::{
    AttributeRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationGroupRef, LocationRef,
    MetricMemberRef, MetricRef, RegionRef, StringRef, SystemTreeNodeRef,
};
pub use strings::STRING_BYTES_MAX;
pub use values::{
    AttributeType, IoAccessMode, IoCreationFlags, IoHandleFlags, IoOperationFlags, IoOperationMode,
    IoParadigmClass, IoParadigmFlags, IoParadigmProperty, IoStatusFlags, LocationGroupType,
    LocationType, MetricBase, MetricMode, MetricOccurrence, MetricScope, MetricType, Paradigm,
    RecorderKind, RegionFlags, RegionRole, SeekOption, SystemTreeDomain,
};
