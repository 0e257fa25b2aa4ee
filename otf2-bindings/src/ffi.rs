//! Declarations of `<otf2/otf2.h>` that this crate uses, written by hand with the C names.
//!
//! Valid for OTF2 2.3 to 3.2: two functions got one more argument with 3.0, nothing else here
//! changed. C enumerations are integers, so a value of a newer library is a number and not
//! undefined behaviour. `tests/abi.rs` compares every line of this file and of `constants.rs` with
//! the headers of the installed library.

#![expect(non_camel_case_types, non_snake_case, reason = "the names of the C library")]
#![expect(clippy::too_many_arguments, reason = "the functions of the C library")]

use std::ffi::{c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};

use libloading::Library;

pub(crate) type OTF2_AttributeRef = u32;
pub(crate) type OTF2_Base = u8;
pub(crate) type OTF2_CommRef = u32;
pub(crate) type OTF2_Compression = u8;
pub(crate) type OTF2_ErrorCode = c_int;
pub(crate) type OTF2_FileMode = u8;
pub(crate) type OTF2_FileSubstrate = u8;
pub(crate) type OTF2_FileType = u8;
pub(crate) type OTF2_FlushType = u8;
pub(crate) type OTF2_IoAccessMode = u8;
pub(crate) type OTF2_IoCreationFlag = u32;
pub(crate) type OTF2_IoFileRef = u32;
pub(crate) type OTF2_IoHandleFlag = u32;
pub(crate) type OTF2_IoHandleRef = u32;
pub(crate) type OTF2_IoOperationFlag = u32;
pub(crate) type OTF2_IoOperationMode = u8;
pub(crate) type OTF2_IoParadigmClass = u8;
pub(crate) type OTF2_IoParadigmFlag = u32;
pub(crate) type OTF2_IoParadigmProperty = u8;
pub(crate) type OTF2_IoParadigmRef = u8;
pub(crate) type OTF2_IoSeekOption = u8;
pub(crate) type OTF2_IoStatusFlag = u32;
pub(crate) type OTF2_LocationGroupRef = u32;
pub(crate) type OTF2_LocationGroupType = u8;
pub(crate) type OTF2_LocationRef = u64;
pub(crate) type OTF2_LocationType = u8;
pub(crate) type OTF2_MetricMemberRef = u32;
pub(crate) type OTF2_MetricMode = u8;
pub(crate) type OTF2_MetricOccurrence = u8;
pub(crate) type OTF2_MetricRef = u32;
pub(crate) type OTF2_MetricScope = u8;
pub(crate) type OTF2_MetricType = u8;
pub(crate) type OTF2_Paradigm = u8;
pub(crate) type OTF2_RecorderKind = u8;
pub(crate) type OTF2_RegionFlag = u32;
pub(crate) type OTF2_RegionRef = u32;
pub(crate) type OTF2_RegionRole = u8;
pub(crate) type OTF2_StringRef = u32;
pub(crate) type OTF2_SystemTreeDomain = u8;
pub(crate) type OTF2_SystemTreeNodeRef = u32;
pub(crate) type OTF2_TimeStamp = u64;
pub(crate) type OTF2_Type = u8;

/// A `va_list` as the callee of a variadic function gets it. It is only ever passed on.
///
/// A `va_list` parameter is a pointer in the calling conventions of Linux on x86, aarch64, arm,
/// riscv64, ppc64le and s390x (an array or a large struct passed by reference, or a pointer).
pub(crate) type va_list = *mut c_void;

macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub(crate) struct $name {
            _data: [u8; 0],
            _neither_send_nor_sync_nor_unpin: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )* };
}
opaque! { OTF2_Archive OTF2_AttributeList OTF2_DefWriter OTF2_EvtWriter OTF2_GlobalDefWriter }

/// Members that the writer sets; `stringRef` in C.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union OTF2_AttributeValue {
    pub(crate) uint32: u32,
    pub(crate) uint64: u64,
    pub(crate) int32: i32,
    pub(crate) int64: i64,
    pub(crate) float64: f64,
    pub(crate) stringRef: OTF2_StringRef,
}

/// One value of a metric event.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union OTF2_MetricValue {
    pub(crate) signed_int: i64,
    pub(crate) unsigned_int: u64,
    pub(crate) floating_point: f64,
}

pub(crate) type OTF2_PreFlushCallback = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file_type: OTF2_FileType,
        location: OTF2_LocationRef,
        caller_data: *mut c_void,
        last: bool,
    ) -> OTF2_FlushType,
>;
pub(crate) type OTF2_PostFlushCallback = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file_type: OTF2_FileType,
        location: OTF2_LocationRef,
    ) -> OTF2_TimeStamp,
>;
pub(crate) type OTF2_MemoryAllocate = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file_type: OTF2_FileType,
        location: OTF2_LocationRef,
        per_buffer_data: *mut *mut c_void,
        chunk_size: u64,
    ) -> *mut c_void,
>;
pub(crate) type OTF2_MemoryFreeAll = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file_type: OTF2_FileType,
        location: OTF2_LocationRef,
        per_buffer_data: *mut *mut c_void,
        last: bool,
    ),
>;
pub(crate) type OTF2_ErrorCallback = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file: *const c_char,
        line: u64,
        function: *const c_char,
        error_code: OTF2_ErrorCode,
        message_format: *const c_char,
        arguments: va_list,
    ) -> OTF2_ErrorCode,
>;

#[repr(C)]
pub(crate) struct OTF2_FlushCallbacks {
    pub(crate) otf2_pre_flush: OTF2_PreFlushCallback,
    pub(crate) otf2_post_flush: OTF2_PostFlushCallback,
}

#[repr(C)]
pub(crate) struct OTF2_MemoryCallbacks {
    pub(crate) otf2_allocate: OTF2_MemoryAllocate,
    pub(crate) otf2_free_all: OTF2_MemoryFreeAll,
}

/// Declares functions of the library that are found by their names when the library is loaded. A
/// name that ends with `_2` is the function of OTF2 2.x without these two characters.
macro_rules! library {
    ($(pub(crate) fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        /// Addresses of the functions.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Functions {
            /// Finds all functions.
            ///
            /// # Errors
            ///
            /// The loader's text for the first function that the library lacks.
            pub(crate) fn of(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self { $(
                    // SAFETY: the type is that of the C function of this name; tests/abi.rs
                    // compares both with the library's headers.
                    $name: *unsafe { library.get(symbol(stringify!($name)).as_bytes()) }?,
                )* })
            }
        }

        $(
            /// # Safety
            ///
            /// As the C function of this name.
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                let function = crate::library::functions().$name;
                // SAFETY: the caller keeps the rules of the C function.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

/// Returns the name in the library of a function that is declared here.
fn symbol(declared: &str) -> &str {
    declared.strip_suffix("_2").unwrap_or(declared)
}

library! {
    pub(crate) fn OTF2_Archive_Open(
        archive_path: *const c_char,
        archive_name: *const c_char,
        file_mode: OTF2_FileMode,
        chunk_size_events: u64,
        chunk_size_defs: u64,
        file_substrate: OTF2_FileSubstrate,
        compression: OTF2_Compression,
    ) -> *mut OTF2_Archive;
    pub(crate) fn OTF2_Archive_Close(archive: *mut OTF2_Archive) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_SetFlushCallbacks(
        archive: *mut OTF2_Archive,
        flush_callbacks: *const OTF2_FlushCallbacks,
        flush_data: *mut c_void,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_SetMemoryCallbacks(
        archive: *mut OTF2_Archive,
        memory_callbacks: *const OTF2_MemoryCallbacks,
        memory_data: *mut c_void,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_SetSerialCollectiveCallbacks(
        archive: *mut OTF2_Archive,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_SetCreator(
        archive: *mut OTF2_Archive,
        creator: *const c_char,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_SetDescription(
        archive: *mut OTF2_Archive,
        description: *const c_char,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_SetMachineName(
        archive: *mut OTF2_Archive,
        machine_name: *const c_char,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_SetProperty(
        archive: *mut OTF2_Archive,
        name: *const c_char,
        value: *const c_char,
        overwrite: bool,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_OpenEvtFiles(archive: *mut OTF2_Archive) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_CloseEvtFiles(archive: *mut OTF2_Archive) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_OpenDefFiles(archive: *mut OTF2_Archive) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_CloseDefFiles(archive: *mut OTF2_Archive) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_GetEvtWriter(
        archive: *mut OTF2_Archive,
        location: OTF2_LocationRef,
    ) -> *mut OTF2_EvtWriter;
    pub(crate) fn OTF2_Archive_CloseEvtWriter(
        archive: *mut OTF2_Archive,
        writer: *mut OTF2_EvtWriter,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_GetDefWriter(
        archive: *mut OTF2_Archive,
        location: OTF2_LocationRef,
    ) -> *mut OTF2_DefWriter;
    pub(crate) fn OTF2_Archive_CloseDefWriter(
        archive: *mut OTF2_Archive,
        writer: *mut OTF2_DefWriter,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Archive_GetGlobalDefWriter(
        archive: *mut OTF2_Archive,
    ) -> *mut OTF2_GlobalDefWriter;
    pub(crate) fn OTF2_Archive_CloseGlobalDefWriter(
        archive: *mut OTF2_Archive,
        writer: *mut OTF2_GlobalDefWriter,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_GetNumberOfEvents(
        writer: *mut OTF2_EvtWriter,
        number_of_events: *mut u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_Enter(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        region: OTF2_RegionRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_Leave(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        region: OTF2_RegionRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_Metric(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        metric: OTF2_MetricRef,
        number_of_metrics: u8,
        type_i_ds: *const OTF2_Type,
        metric_values: *const OTF2_MetricValue,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoCreateHandle(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
        mode: OTF2_IoAccessMode,
        creation_flags: OTF2_IoCreationFlag,
        status_flags: OTF2_IoStatusFlag,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoDestroyHandle(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoDuplicateHandle(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        old_handle: OTF2_IoHandleRef,
        new_handle: OTF2_IoHandleRef,
        status_flags: OTF2_IoStatusFlag,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoSeek(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
        offset_request: i64,
        whence: OTF2_IoSeekOption,
        offset_result: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoChangeStatusFlags(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
        status_flags: OTF2_IoStatusFlag,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoDeleteFile(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        io_paradigm: OTF2_IoParadigmRef,
        file: OTF2_IoFileRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoOperationBegin(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
        mode: OTF2_IoOperationMode,
        operation_flags: OTF2_IoOperationFlag,
        bytes_request: u64,
        matching_id: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoOperationIssued(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
        matching_id: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoOperationComplete(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
        bytes_result: u64,
        matching_id: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_EvtWriter_IoOperationCancelled(
        writer: *mut OTF2_EvtWriter,
        attribute_list: *mut OTF2_AttributeList,
        time: OTF2_TimeStamp,
        handle: OTF2_IoHandleRef,
        matching_id: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteClockProperties(
        writer_handle: *mut OTF2_GlobalDefWriter,
        timer_resolution: u64,
        global_offset: u64,
        trace_length: u64,
        realtime_timestamp: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteClockProperties_2(
        writer_handle: *mut OTF2_GlobalDefWriter,
        timer_resolution: u64,
        global_offset: u64,
        trace_length: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteString(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_StringRef,
        string: *const c_char,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteAttribute(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_AttributeRef,
        name: OTF2_StringRef,
        description: OTF2_StringRef,
        type_: OTF2_Type,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteIoParadigm(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_IoParadigmRef,
        identification: OTF2_StringRef,
        name: OTF2_StringRef,
        io_paradigm_class: OTF2_IoParadigmClass,
        io_paradigm_flags: OTF2_IoParadigmFlag,
        number_of_properties: u8,
        properties: *const OTF2_IoParadigmProperty,
        types: *const OTF2_Type,
        values: *const OTF2_AttributeValue,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteSystemTreeNode(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_SystemTreeNodeRef,
        name: OTF2_StringRef,
        class_name: OTF2_StringRef,
        parent: OTF2_SystemTreeNodeRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteSystemTreeNodeProperty(
        writer_handle: *mut OTF2_GlobalDefWriter,
        system_tree_node: OTF2_SystemTreeNodeRef,
        name: OTF2_StringRef,
        type_: OTF2_Type,
        value: OTF2_AttributeValue,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain(
        writer_handle: *mut OTF2_GlobalDefWriter,
        system_tree_node: OTF2_SystemTreeNodeRef,
        system_tree_domain: OTF2_SystemTreeDomain,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteLocationGroup(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_LocationGroupRef,
        name: OTF2_StringRef,
        location_group_type: OTF2_LocationGroupType,
        system_tree_parent: OTF2_SystemTreeNodeRef,
        creating_location_group: OTF2_LocationGroupRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteLocationGroup_2(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_LocationGroupRef,
        name: OTF2_StringRef,
        location_group_type: OTF2_LocationGroupType,
        system_tree_parent: OTF2_SystemTreeNodeRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteLocationGroupProperty(
        writer_handle: *mut OTF2_GlobalDefWriter,
        location_group: OTF2_LocationGroupRef,
        name: OTF2_StringRef,
        type_: OTF2_Type,
        value: OTF2_AttributeValue,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteLocation(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_LocationRef,
        name: OTF2_StringRef,
        location_type: OTF2_LocationType,
        number_of_events: u64,
        location_group: OTF2_LocationGroupRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteLocationProperty(
        writer_handle: *mut OTF2_GlobalDefWriter,
        location: OTF2_LocationRef,
        name: OTF2_StringRef,
        type_: OTF2_Type,
        value: OTF2_AttributeValue,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteRegion(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_RegionRef,
        name: OTF2_StringRef,
        canonical_name: OTF2_StringRef,
        description: OTF2_StringRef,
        region_role: OTF2_RegionRole,
        paradigm: OTF2_Paradigm,
        region_flags: OTF2_RegionFlag,
        source_file: OTF2_StringRef,
        begin_line_number: u32,
        end_line_number: u32,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteIoRegularFile(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_IoFileRef,
        name: OTF2_StringRef,
        scope: OTF2_SystemTreeNodeRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteIoDirectory(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_IoFileRef,
        name: OTF2_StringRef,
        scope: OTF2_SystemTreeNodeRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteIoFileProperty(
        writer_handle: *mut OTF2_GlobalDefWriter,
        io_file: OTF2_IoFileRef,
        name: OTF2_StringRef,
        type_: OTF2_Type,
        value: OTF2_AttributeValue,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteIoHandle(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_IoHandleRef,
        name: OTF2_StringRef,
        file: OTF2_IoFileRef,
        io_paradigm: OTF2_IoParadigmRef,
        io_handle_flags: OTF2_IoHandleFlag,
        comm: OTF2_CommRef,
        parent: OTF2_IoHandleRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteIoPreCreatedHandleState(
        writer_handle: *mut OTF2_GlobalDefWriter,
        io_handle: OTF2_IoHandleRef,
        mode: OTF2_IoAccessMode,
        status_flags: OTF2_IoStatusFlag,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteMetricMember(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_MetricMemberRef,
        name: OTF2_StringRef,
        description: OTF2_StringRef,
        metric_type: OTF2_MetricType,
        metric_mode: OTF2_MetricMode,
        value_type: OTF2_Type,
        base: OTF2_Base,
        exponent: i64,
        unit: OTF2_StringRef,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteMetricClass(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_MetricRef,
        number_of_metrics: u8,
        metric_members: *const OTF2_MetricMemberRef,
        metric_occurrence: OTF2_MetricOccurrence,
        recorder_kind: OTF2_RecorderKind,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_GlobalDefWriter_WriteMetricInstance(
        writer_handle: *mut OTF2_GlobalDefWriter,
        self_: OTF2_MetricRef,
        metric_class: OTF2_MetricRef,
        recorder: OTF2_LocationRef,
        metric_scope: OTF2_MetricScope,
        scope: u64,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_AttributeList_New() -> *mut OTF2_AttributeList;
    pub(crate) fn OTF2_AttributeList_Delete(
        attribute_list: *mut OTF2_AttributeList,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_AttributeList_AddAttribute(
        attribute_list: *mut OTF2_AttributeList,
        attribute: OTF2_AttributeRef,
        type_: OTF2_Type,
        value: OTF2_AttributeValue,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_AttributeList_RemoveAllAttributes(
        attribute_list: *mut OTF2_AttributeList,
    ) -> OTF2_ErrorCode;
    pub(crate) fn OTF2_Error_GetName(error_code: OTF2_ErrorCode) -> *const c_char;
    pub(crate) fn OTF2_Error_GetDescription(error_code: OTF2_ErrorCode) -> *const c_char;
    pub(crate) fn OTF2_Error_RegisterCallback(
        error_callback_in: OTF2_ErrorCallback,
        user_data: *mut c_void,
    ) -> OTF2_ErrorCallback;
}

unsafe extern "C" {
    /// Function of the C library that formats the reports of OTF2.
    pub(crate) fn vsnprintf(
        buffer: *mut c_char,
        size: usize,
        format: *const c_char,
        arguments: va_list,
    ) -> c_int;
}
