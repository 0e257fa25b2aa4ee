//! Data from which the definitions are written.

use otf2_sys::LocationRef;

use super::registry::LocationOwner;
use crate::capture::header::Header;
use crate::operation::mount_table::MountTable;
use crate::otf2::block::Devices;
use crate::otf2::files::FileDefinitions;
use crate::otf2::handles::HandleTable;
use crate::otf2::options::EndFacts;
use crate::otf2::regions::Regions;
use crate::otf2::tasks::TaskDefinitions;

/// Data for all definitions.
pub(in crate::otf2) struct FinishContext<'a> {
    pub(in crate::otf2) files: &'a FileDefinitions,
    pub(in crate::otf2) handles: &'a HandleTable,
    pub(in crate::otf2) regions: &'a Regions,
    /// Owners of the locations, in the order of their numbers.
    pub(in crate::otf2) owners: &'a [(LocationRef, LocationOwner)],
    pub(in crate::otf2) tasks: &'a TaskDefinitions,
    pub(in crate::otf2) devices: &'a Devices,
    pub(in crate::otf2) mounts: &'a MountTable,
    pub(in crate::otf2) capture: &'a Header,
    pub(in crate::otf2) end: &'a EndFacts,
}
