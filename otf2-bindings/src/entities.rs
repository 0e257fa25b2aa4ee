//! Definitions with too many fields for a list of arguments.

use crate::attributes::AttributeValue;
use crate::refs::StringRef;
use crate::values::{
    IoParadigmClass, IoParadigmFlags, IoParadigmProperty, MetricBase, MetricMode, MetricType,
    Paradigm, RegionFlags, RegionRole,
};

/// A region: a function or a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The name to show.
    pub name: StringRef,
    /// The name in the language or system it comes from, often the same.
    pub canonical_name: StringRef,
    /// A description for people.
    pub description: StringRef,
    /// Role of its code.
    pub role: RegionRole,
    /// Paradigm that defines it.
    pub paradigm: Paradigm,
    /// Flags of the region.
    pub flags: RegionFlags,
    /// The source file; viewers group regions by it.
    pub source_file: StringRef,
    /// The first line in the source file; 0 if unknown.
    pub begin_line: u32,
    /// The last line in the source file; 0 if unknown.
    pub end_line: u32,
}

/// An I/O paradigm: a family of I/O functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoParadigm<'a> {
    /// The name for programs: "POSIX".
    pub identification: StringRef,
    /// The name for people: "POSIX I/O".
    pub name: StringRef,
    /// Class of its handles.
    pub class: IoParadigmClass,
    /// Flags of the paradigm.
    pub flags: IoParadigmFlags,
    /// Properties, at most 255.
    pub properties: &'a [(IoParadigmProperty, AttributeValue)],
}

/// One quantity of a metric; its values are unsigned 64-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricMember {
    /// The name to show.
    pub name: StringRef,
    /// A description for people.
    pub description: StringRef,
    /// Source of the values.
    pub metric_type: MetricType,
    /// Meaning of a value, and the time for which it is valid.
    pub mode: MetricMode,
    /// A value `v` means `v · base ^ exponent` units.
    pub base: MetricBase,
    /// See `base`.
    pub exponent: i64,
    /// The unit: "bytes".
    pub unit: StringRef,
}
