//! An event as a value: passed to the library, or encoded as bytes and read back.
//!
//! ```text
//!   head     number of the kind; bits: has attributes, same time as the previous event
//!   time     unless the same: since the previous event
//!   fields   in the order of the table
//!   [attributes: their number; the id, type and value of each]
//! ```

use crate::attributes::{AttributeValue, Attributes};
use crate::bytes::{Field, NUMBER_BYTES_MAX, OrUndefined};
use crate::constants::OTF2_TYPE_UINT64;
use crate::ffi::{
    OTF2_AttributeList, OTF2_ErrorCode, OTF2_EvtWriter, OTF2_EvtWriter_Enter,
    OTF2_EvtWriter_IoChangeStatusFlags, OTF2_EvtWriter_IoCreateHandle, OTF2_EvtWriter_IoDeleteFile,
    OTF2_EvtWriter_IoDestroyHandle, OTF2_EvtWriter_IoDuplicateHandle,
    OTF2_EvtWriter_IoOperationBegin, OTF2_EvtWriter_IoOperationCancelled,
    OTF2_EvtWriter_IoOperationComplete, OTF2_EvtWriter_IoOperationIssued, OTF2_EvtWriter_IoSeek,
    OTF2_EvtWriter_Leave, OTF2_EvtWriter_Metric, OTF2_MetricValue,
};
use crate::refs::AttributeRef;

const HAS_ATTRIBUTES: u8 = 0x40;
const SAME_TIME: u8 = 0x80;
const METRIC: u8 = 12;

/// Limit on the fields in the table below, with room to spare.
const FIELDS_MAX: usize = 8;

/// Limit on the values of a metric event.
pub(crate) const VALUES_MAX: usize = u8::MAX as usize;

/// Types of the values of a metric event, for the largest number of values.
static METRIC_TYPES: [u8; VALUES_MAX] = [OTF2_TYPE_UINT64; VALUES_MAX];

// A slice of u64 is handed to C as an array of the union.
const _: () = assert!(size_of::<OTF2_MetricValue>() == size_of::<u64>());
const _: () = assert!(align_of::<OTF2_MetricValue>() == align_of::<u64>());

/// Conversion to the type of the C function.
trait Raw {
    type C;
    fn raw(self) -> Self::C;
}

macro_rules! raw_as_it_is {
    ($($type:ty)*) => { $(
        impl Raw for $type {
            type C = Self;
            #[inline]
            fn raw(self) -> Self {
                self
            }
        }
    )* };
}

raw_as_it_is! { u8 u32 u64 i64 }

impl Raw for OrUndefined {
    type C = u64;
    #[inline]
    fn raw(self) -> u64 {
        self.0
    }
}

/// Defines the kinds of events: number in the encoding, fields in the order of the library's
/// function.
macro_rules! records {
    ($($number:literal $kind:ident { $($field:ident: $type:ty),* } = $function:ident;)*) => {
        /// An event without its time and attributes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Record<'a> {
            $($kind { $($field: $type),* },)*
            Metric { metric: u32, values: &'a [u64] },
        }

        impl<'a> Record<'a> {
            /// Calls the library.
            ///
            /// # Safety
            ///
            /// The writer is open, and the list null or filled for this event.
            #[inline(always)]
            pub(crate) unsafe fn call(
                self,
                writer: *mut OTF2_EvtWriter,
                list: *mut OTF2_AttributeList,
                time: u64,
            ) -> OTF2_ErrorCode {
                match self {
                    $(Self::$kind { $($field),* } => {
                        // SAFETY: the caller's promise; the other arguments are numbers to the
                        // library.
                        unsafe { $function(writer, list, time, $($field.raw()),*) }
                    })*
                    Self::Metric { metric, values } => {
                        let count = u8::try_from(values.len()).unwrap_or(u8::MAX);
                        let (types, values) = (METRIC_TYPES.as_ptr(), values.as_ptr().cast());
                        // SAFETY: the caller's promise; `types` and `values` have at least `count`
                        // elements, and a u64 is a valid element of the union (same size and
                        // alignment, see above).
                        unsafe {
                            OTF2_EvtWriter_Metric(writer, list, time, metric, count, types, values)
                        }
                    }
                }
            }

            fn number(self) -> u8 {
                match self {
                    $(Self::$kind { .. } => $number,)*
                    Self::Metric { .. } => METRIC,
                }
            }

            #[inline]
            fn put_fields(self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$kind { $($field),* } => { $($field.put(bytes);)* })*
                    Self::Metric { metric, values } => {
                        metric.put(bytes);
                        (values.len() as u64).put(bytes);
                        values.iter().for_each(|it| it.put(bytes));
                    }
                }
            }

            #[inline]
            fn take_fields(
                number: u8,
                bytes: &mut &[u8],
                scratch: &'a mut Vec<u64>,
            ) -> Option<Self> {
                Some(match number {
                    $($number => Self::$kind { $($field: Field::take(bytes)?),* },)*
                    METRIC => {
                        let metric = Field::take(bytes)?;
                        scratch.clear();
                        for _ in 0..u64::take(bytes)? {
                            scratch.push(Field::take(bytes)?);
                        }
                        Self::Metric { metric, values: scratch }
                    }
                    _ => return None,
                })
            }
        }
    };
}

records! {
    0 Enter { region: u32 } = OTF2_EvtWriter_Enter;
    1 Leave { region: u32 } = OTF2_EvtWriter_Leave;
    2 IoCreateHandle { handle: u32, mode: u8, creation: u32, status: u32 } = OTF2_EvtWriter_IoCreateHandle;
    3 IoDestroyHandle { handle: u32 } = OTF2_EvtWriter_IoDestroyHandle;
    4 IoDuplicateHandle { old: u32, new: u32, status: u32 } = OTF2_EvtWriter_IoDuplicateHandle;
    5 IoSeek { handle: u32, request: i64, whence: u8, result: u64 } = OTF2_EvtWriter_IoSeek;
    6 IoChangeStatusFlags { handle: u32, status: u32 } = OTF2_EvtWriter_IoChangeStatusFlags;
    7 IoDeleteFile { paradigm: u8, file: u32 } = OTF2_EvtWriter_IoDeleteFile;
    8 IoOperationBegin { handle: u32, mode: u8, flags: u32, bytes_request: OrUndefined, matching_id: u64 }
        = OTF2_EvtWriter_IoOperationBegin;
    9 IoOperationIssued { handle: u32, matching_id: u64 } = OTF2_EvtWriter_IoOperationIssued;
    10 IoOperationComplete { handle: u32, bytes_result: OrUndefined, matching_id: u64 }
        = OTF2_EvtWriter_IoOperationComplete;
    11 IoOperationCancelled { handle: u32, matching_id: u64 } = OTF2_EvtWriter_IoOperationCancelled;
}

/// Buffers for reading back.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    values: Vec<u64>,
    attributes: Vec<(AttributeRef, AttributeValue)>,
}

impl Record<'_> {
    /// Limit on the encoded bytes of the event.
    #[inline]
    pub(crate) fn bytes_max(self, attributes: usize) -> usize {
        let values = if let Self::Metric { values, .. } = self { values.len() } else { 0 };
        // Head, time, and number of attributes; each has an id, a type and a value.
        (FIELDS_MAX + 3 + values + 3 * attributes) * NUMBER_BYTES_MAX
    }

    /// Appends the event.
    pub(crate) fn put(self, since: u64, attributes: Attributes<'_>, bytes: &mut Vec<u8>) {
        let has_attributes = if attributes.is_empty() { 0 } else { HAS_ATTRIBUTES };
        let same_time = if since == 0 { SAME_TIME } else { 0 };
        bytes.push(self.number() | has_attributes | same_time);
        if since != 0 {
            since.put(bytes);
        }
        self.put_fields(bytes);
        if !attributes.is_empty() {
            (attributes.len() as u64).put(bytes);
            for (attribute, value) in attributes {
                attribute.id().put(bytes);
                value.put(bytes);
            }
        }
    }
}

/// Takes an event off the front and passes it with its time and attributes to `use_it`; `None` if
/// there is none.
#[inline]
pub(crate) fn take<T>(
    bytes: &mut &[u8],
    time: &mut u64,
    scratch: &mut Scratch,
    use_it: impl FnOnce(u64, Record<'_>, Attributes<'_>) -> T,
) -> Option<T> {
    let head = u8::take(bytes)?;
    if head & SAME_TIME == 0 {
        *time = time.checked_add(u64::take(bytes)?)?;
    }
    let number = head & !(SAME_TIME | HAS_ATTRIBUTES);
    let record = Record::take_fields(number, bytes, &mut scratch.values)?;
    scratch.attributes.clear();
    if head & HAS_ATTRIBUTES != 0 {
        for _ in 0..u64::take(bytes)? {
            let attribute = AttributeRef::new(Field::take(bytes)?);
            scratch.attributes.push((attribute, Field::take(bytes)?));
        }
    }
    Some(use_it(*time, record, &scratch.attributes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::StringRef;

    const UNDEFINED: OrUndefined = OrUndefined(u64::MAX);

    /// One of each kind at least, with the largest numbers.
    fn records(values: &[u64]) -> Vec<Record<'_>> {
        let (handle, status, matching_id) = (u32::MAX, 1 << 31, u64::MAX - 1);
        let (mode, flags) = (u8::MAX, 3);
        vec![
            Record::Enter { region: 0 },
            Record::Leave { region: u32::MAX },
            Record::IoCreateHandle { handle, mode, creation: 128, status },
            Record::IoDestroyHandle { handle },
            Record::IoDuplicateHandle { old: handle, new: 5, status },
            Record::IoSeek { handle, request: i64::MIN, whence: 2, result: u64::MAX },
            Record::IoChangeStatusFlags { handle, status },
            Record::IoDeleteFile { paradigm: 254, file: 1 << 20 },
            Record::IoOperationBegin { handle, mode, flags, bytes_request: UNDEFINED, matching_id },
            Record::IoOperationIssued { handle, matching_id },
            Record::IoOperationComplete { handle, bytes_result: OrUndefined(0), matching_id },
            Record::IoOperationCancelled { handle, matching_id },
            Record::Metric { metric: 9, values: &[] },
            Record::Metric { metric: u32::MAX, values },
        ]
    }

    fn attributes() -> Vec<(AttributeRef, AttributeValue)> {
        [
            AttributeValue::Uint32(u32::MAX),
            AttributeValue::Uint64(u64::MAX),
            AttributeValue::Int32(i32::MIN),
            AttributeValue::Int64(i64::MIN),
            AttributeValue::Double(-0.5),
            AttributeValue::String(StringRef::new(u32::MAX)),
        ]
        .into_iter()
        .zip(u32::MAX - 9..)
        .map(|(value, id)| (AttributeRef::new(id), value))
        .collect()
    }

    #[test]
    fn events_come_back_as_they_were() {
        let (values, attributes) = ([u64::MAX; VALUES_MAX], attributes());
        let records = records(&values);
        let (mut bytes, mut expected, mut now) = (Vec::new(), Vec::new(), 0);
        for since in [u64::MAX / 100, 0, 1, 1 << 40] {
            for record in &records {
                for count in [0, 1, attributes.len()] {
                    let before = bytes.len();
                    record.put(since, &attributes[..count], &mut bytes);
                    assert!(bytes.len() - before <= record.bytes_max(count), "{record:?}");
                    now += since;
                    expected.push((now, *record, &attributes[..count]));
                }
            }
        }
        let (mut rest, mut time, mut scratch) = (bytes.as_slice(), 0, Scratch::default());
        for expected in &expected {
            let same = take(&mut rest, &mut time, &mut scratch, |time, record, attributes| {
                assert_eq!((time, record, attributes), *expected);
            });
            assert_eq!(same, Some(()));
        }
        assert_eq!(rest, []);
    }

    #[test]
    fn partial_event_is_none() {
        let values = [1 << 40; VALUES_MAX];
        for record in records(&values) {
            let mut bytes = Vec::new();
            record.put(1000, &attributes(), &mut bytes);
            for cut in 0..bytes.len() {
                let (mut half, mut scratch) = (&bytes[..cut], Scratch::default());
                let taken = take(&mut half, &mut 0, &mut scratch, |_, _, _| ());
                assert_eq!(taken, None, "{cut} bytes of {record:?}");
            }
        }
        let taken = take(&mut [0x3f, 1].as_slice(), &mut 0, &mut Scratch::default(), |_, _, _| ());
        assert_eq!(taken, None, "no such kind");
    }
}
