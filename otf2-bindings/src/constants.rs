//! The constants of `<otf2/otf2.h>` that this crate uses, compared with the headers by
//! `tests/abi.rs`.

use crate::ffi::{
    OTF2_Base, OTF2_CommRef, OTF2_Compression, OTF2_ErrorCode, OTF2_FileMode, OTF2_FileSubstrate,
    OTF2_FileType, OTF2_FlushType, OTF2_IoAccessMode, OTF2_IoCreationFlag, OTF2_IoFileRef,
    OTF2_IoHandleFlag, OTF2_IoHandleRef, OTF2_IoOperationFlag, OTF2_IoOperationMode,
    OTF2_IoParadigmClass, OTF2_IoParadigmFlag, OTF2_IoParadigmProperty, OTF2_IoSeekOption,
    OTF2_IoStatusFlag, OTF2_LocationGroupRef, OTF2_LocationGroupType, OTF2_LocationType,
    OTF2_MetricMode, OTF2_MetricOccurrence, OTF2_MetricScope, OTF2_MetricType, OTF2_Paradigm,
    OTF2_RecorderKind, OTF2_RegionFlag, OTF2_RegionRole, OTF2_SystemTreeDomain,
    OTF2_SystemTreeNodeRef, OTF2_TimeStamp, OTF2_Type,
};

pub(crate) const OTF2_FILEMODE_WRITE: OTF2_FileMode = 0;

pub(crate) const OTF2_SUBSTRATE_POSIX: OTF2_FileSubstrate = 1;

pub(crate) const OTF2_COMPRESSION_NONE: OTF2_Compression = 1;

pub(crate) const OTF2_NO_FLUSH: OTF2_FlushType = 0;
pub(crate) const OTF2_FLUSH: OTF2_FlushType = 1;

pub(crate) const OTF2_TYPE_UINT32: OTF2_Type = 3;
pub(crate) const OTF2_TYPE_UINT64: OTF2_Type = 4;
pub(crate) const OTF2_TYPE_INT32: OTF2_Type = 7;
pub(crate) const OTF2_TYPE_INT64: OTF2_Type = 8;
pub(crate) const OTF2_TYPE_DOUBLE: OTF2_Type = 10;
pub(crate) const OTF2_TYPE_STRING: OTF2_Type = 11;

pub(crate) const OTF2_LOCATION_TYPE_UNKNOWN: OTF2_LocationType = 0;
pub(crate) const OTF2_LOCATION_TYPE_CPU_THREAD: OTF2_LocationType = 1;
pub(crate) const OTF2_LOCATION_TYPE_METRIC: OTF2_LocationType = 3;

pub(crate) const OTF2_LOCATION_GROUP_TYPE_UNKNOWN: OTF2_LocationGroupType = 0;
pub(crate) const OTF2_LOCATION_GROUP_TYPE_PROCESS: OTF2_LocationGroupType = 1;

pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_MACHINE: OTF2_SystemTreeDomain = 0;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY: OTF2_SystemTreeDomain = 1;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_NUMA: OTF2_SystemTreeDomain = 2;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_SOCKET: OTF2_SystemTreeDomain = 3;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_CACHE: OTF2_SystemTreeDomain = 4;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_CORE: OTF2_SystemTreeDomain = 5;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_PU: OTF2_SystemTreeDomain = 6;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_ACCELERATOR_DEVICE: OTF2_SystemTreeDomain = 7;
pub(crate) const OTF2_SYSTEM_TREE_DOMAIN_NETWORKING_DEVICE: OTF2_SystemTreeDomain = 8;

pub(crate) const OTF2_REGION_ROLE_UNKNOWN: OTF2_RegionRole = 0;
pub(crate) const OTF2_REGION_ROLE_FUNCTION: OTF2_RegionRole = 1;
pub(crate) const OTF2_REGION_ROLE_WRAPPER: OTF2_RegionRole = 2;
pub(crate) const OTF2_REGION_ROLE_CODE: OTF2_RegionRole = 4;
pub(crate) const OTF2_REGION_ROLE_FILE_IO: OTF2_RegionRole = 27;
pub(crate) const OTF2_REGION_ROLE_ARTIFICIAL: OTF2_RegionRole = 31;
pub(crate) const OTF2_REGION_ROLE_FILE_IO_METADATA: OTF2_RegionRole = 38;

pub(crate) const OTF2_REGION_FLAG_DYNAMIC: OTF2_RegionFlag = 1 << 0;
pub(crate) const OTF2_REGION_FLAG_PHASE: OTF2_RegionFlag = 1 << 1;

pub(crate) const OTF2_PARADIGM_UNKNOWN: OTF2_Paradigm = 0;
pub(crate) const OTF2_PARADIGM_USER: OTF2_Paradigm = 1;
pub(crate) const OTF2_PARADIGM_COMPILER: OTF2_Paradigm = 2;
pub(crate) const OTF2_PARADIGM_MEASUREMENT_SYSTEM: OTF2_Paradigm = 6;
pub(crate) const OTF2_PARADIGM_PTHREAD: OTF2_Paradigm = 7;
pub(crate) const OTF2_PARADIGM_HARDWARE: OTF2_Paradigm = 10;
pub(crate) const OTF2_PARADIGM_SAMPLING: OTF2_Paradigm = 21;
pub(crate) const OTF2_PARADIGM_NONE: OTF2_Paradigm = 22;

pub(crate) const OTF2_IO_PARADIGM_CLASS_SERIAL: OTF2_IoParadigmClass = 0;
pub(crate) const OTF2_IO_PARADIGM_CLASS_PARALLEL: OTF2_IoParadigmClass = 1;

pub(crate) const OTF2_IO_PARADIGM_FLAG_OS: OTF2_IoParadigmFlag = 1 << 0;

pub(crate) const OTF2_IO_HANDLE_FLAG_PRE_CREATED: OTF2_IoHandleFlag = 1 << 0;
pub(crate) const OTF2_IO_HANDLE_FLAG_ALL_PROXY: OTF2_IoHandleFlag = 1 << 1;

pub(crate) const OTF2_IO_ACCESS_MODE_READ_ONLY: OTF2_IoAccessMode = 0;
pub(crate) const OTF2_IO_ACCESS_MODE_WRITE_ONLY: OTF2_IoAccessMode = 1;
pub(crate) const OTF2_IO_ACCESS_MODE_READ_WRITE: OTF2_IoAccessMode = 2;
pub(crate) const OTF2_IO_ACCESS_MODE_EXECUTE_ONLY: OTF2_IoAccessMode = 3;
pub(crate) const OTF2_IO_ACCESS_MODE_SEARCH_ONLY: OTF2_IoAccessMode = 4;

pub(crate) const OTF2_IO_STATUS_FLAG_CLOSE_ON_EXEC: OTF2_IoStatusFlag = 1 << 0;
pub(crate) const OTF2_IO_STATUS_FLAG_APPEND: OTF2_IoStatusFlag = 1 << 1;
pub(crate) const OTF2_IO_STATUS_FLAG_NON_BLOCKING: OTF2_IoStatusFlag = 1 << 2;
pub(crate) const OTF2_IO_STATUS_FLAG_ASYNC: OTF2_IoStatusFlag = 1 << 3;
pub(crate) const OTF2_IO_STATUS_FLAG_SYNC: OTF2_IoStatusFlag = 1 << 4;
pub(crate) const OTF2_IO_STATUS_FLAG_DATA_SYNC: OTF2_IoStatusFlag = 1 << 5;
pub(crate) const OTF2_IO_STATUS_FLAG_AVOID_CACHING: OTF2_IoStatusFlag = 1 << 6;
pub(crate) const OTF2_IO_STATUS_FLAG_NO_ACCESS_TIME: OTF2_IoStatusFlag = 1 << 7;
pub(crate) const OTF2_IO_STATUS_FLAG_DELETE_ON_CLOSE: OTF2_IoStatusFlag = 1 << 8;

pub(crate) const OTF2_IO_CREATION_FLAG_CREATE: OTF2_IoCreationFlag = 1 << 0;
pub(crate) const OTF2_IO_CREATION_FLAG_TRUNCATE: OTF2_IoCreationFlag = 1 << 1;
pub(crate) const OTF2_IO_CREATION_FLAG_DIRECTORY: OTF2_IoCreationFlag = 1 << 2;
pub(crate) const OTF2_IO_CREATION_FLAG_EXCLUSIVE: OTF2_IoCreationFlag = 1 << 3;
pub(crate) const OTF2_IO_CREATION_FLAG_NO_CONTROLLING_TERMINAL: OTF2_IoCreationFlag = 1 << 4;
pub(crate) const OTF2_IO_CREATION_FLAG_NO_FOLLOW: OTF2_IoCreationFlag = 1 << 5;
pub(crate) const OTF2_IO_CREATION_FLAG_PATH: OTF2_IoCreationFlag = 1 << 6;
pub(crate) const OTF2_IO_CREATION_FLAG_TEMPORARY_FILE: OTF2_IoCreationFlag = 1 << 7;
pub(crate) const OTF2_IO_CREATION_FLAG_LARGEFILE: OTF2_IoCreationFlag = 1 << 8;
pub(crate) const OTF2_IO_CREATION_FLAG_NO_SEEK: OTF2_IoCreationFlag = 1 << 9;
pub(crate) const OTF2_IO_CREATION_FLAG_UNIQUE: OTF2_IoCreationFlag = 1 << 10;

pub(crate) const OTF2_IO_SEEK_FROM_START: OTF2_IoSeekOption = 0;
pub(crate) const OTF2_IO_SEEK_FROM_CURRENT: OTF2_IoSeekOption = 1;
pub(crate) const OTF2_IO_SEEK_FROM_END: OTF2_IoSeekOption = 2;
pub(crate) const OTF2_IO_SEEK_DATA: OTF2_IoSeekOption = 3;
pub(crate) const OTF2_IO_SEEK_HOLE: OTF2_IoSeekOption = 4;

pub(crate) const OTF2_IO_OPERATION_MODE_READ: OTF2_IoOperationMode = 0;
pub(crate) const OTF2_IO_OPERATION_MODE_WRITE: OTF2_IoOperationMode = 1;
pub(crate) const OTF2_IO_OPERATION_MODE_FLUSH: OTF2_IoOperationMode = 2;

pub(crate) const OTF2_IO_OPERATION_FLAG_NON_BLOCKING: OTF2_IoOperationFlag = 1 << 0;
pub(crate) const OTF2_IO_OPERATION_FLAG_COLLECTIVE: OTF2_IoOperationFlag = 1 << 1;

pub(crate) const OTF2_METRIC_TYPE_OTHER: OTF2_MetricType = 0;
pub(crate) const OTF2_METRIC_TYPE_PAPI: OTF2_MetricType = 1;
pub(crate) const OTF2_METRIC_TYPE_RUSAGE: OTF2_MetricType = 2;
pub(crate) const OTF2_METRIC_TYPE_USER: OTF2_MetricType = 3;

pub(crate) const OTF2_METRIC_ACCUMULATED_START: OTF2_MetricMode = 0;
pub(crate) const OTF2_METRIC_ACCUMULATED_POINT: OTF2_MetricMode = 16;
pub(crate) const OTF2_METRIC_ACCUMULATED_LAST: OTF2_MetricMode = 32;
pub(crate) const OTF2_METRIC_ACCUMULATED_NEXT: OTF2_MetricMode = 48;
pub(crate) const OTF2_METRIC_ABSOLUTE_POINT: OTF2_MetricMode = 17;
pub(crate) const OTF2_METRIC_ABSOLUTE_LAST: OTF2_MetricMode = 33;
pub(crate) const OTF2_METRIC_ABSOLUTE_NEXT: OTF2_MetricMode = 49;
pub(crate) const OTF2_METRIC_RELATIVE_POINT: OTF2_MetricMode = 18;
pub(crate) const OTF2_METRIC_RELATIVE_LAST: OTF2_MetricMode = 34;
pub(crate) const OTF2_METRIC_RELATIVE_NEXT: OTF2_MetricMode = 50;

pub(crate) const OTF2_METRIC_SYNCHRONOUS_STRICT: OTF2_MetricOccurrence = 0;
pub(crate) const OTF2_METRIC_SYNCHRONOUS: OTF2_MetricOccurrence = 1;
pub(crate) const OTF2_METRIC_ASYNCHRONOUS: OTF2_MetricOccurrence = 2;

pub(crate) const OTF2_RECORDER_KIND_UNKNOWN: OTF2_RecorderKind = 0;
pub(crate) const OTF2_RECORDER_KIND_ABSTRACT: OTF2_RecorderKind = 1;
pub(crate) const OTF2_RECORDER_KIND_CPU: OTF2_RecorderKind = 2;
pub(crate) const OTF2_RECORDER_KIND_GPU: OTF2_RecorderKind = 3;

pub(crate) const OTF2_SCOPE_LOCATION: OTF2_MetricScope = 0;
pub(crate) const OTF2_SCOPE_LOCATION_GROUP: OTF2_MetricScope = 1;
pub(crate) const OTF2_SCOPE_SYSTEM_TREE_NODE: OTF2_MetricScope = 2;
pub(crate) const OTF2_SCOPE_GROUP: OTF2_MetricScope = 3;

pub(crate) const OTF2_BASE_BINARY: OTF2_Base = 0;
pub(crate) const OTF2_BASE_DECIMAL: OTF2_Base = 1;

pub(crate) const OTF2_SUCCESS: OTF2_ErrorCode = 0;
/// A position of the error report that precedes `abort()`.
pub(crate) const OTF2_ABORT: OTF2_ErrorCode = -2;
/// "no space left on device".
pub(crate) const OTF2_ERROR_ENOSPC: OTF2_ErrorCode = 48;
/// "file exists".
pub(crate) const OTF2_ERROR_EEXIST: OTF2_ErrorCode = 19;

pub(crate) const OTF2_IO_PARADIGM_PROPERTY_VERSION: OTF2_IoParadigmProperty = 0;
/// The smallest chunk OTF2 accepts: 256 KiB.
pub(crate) const OTF2_CHUNK_SIZE_MIN: u64 = 256 * 1024;
pub(crate) const OTF2_FILETYPE_EVENTS: OTF2_FileType = 3;

pub(crate) const OTF2_UNDEFINED_UINT64: u64 = 0xffff_ffff_ffff_ffff;
pub(crate) const OTF2_UNDEFINED_SYSTEM_TREE_NODE: OTF2_SystemTreeNodeRef = 0xffff_ffff;
pub(crate) const OTF2_UNDEFINED_LOCATION_GROUP: OTF2_LocationGroupRef = 0xffff_ffff;
pub(crate) const OTF2_UNDEFINED_IO_FILE: OTF2_IoFileRef = 0xffff_ffff;
pub(crate) const OTF2_UNDEFINED_IO_HANDLE: OTF2_IoHandleRef = 0xffff_ffff;
pub(crate) const OTF2_UNDEFINED_COMM: OTF2_CommRef = 0xffff_ffff;
pub(crate) const OTF2_UNDEFINED_TIMESTAMP: OTF2_TimeStamp = 0xffff_ffff_ffff_ffff;
