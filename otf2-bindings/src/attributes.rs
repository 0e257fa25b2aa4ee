//! Additional values of an event: pairs of an attribute and a value.

use std::ptr::{NonNull, null_mut};

use crate::bytes::Field;
use crate::constants::{
    OTF2_SUCCESS, OTF2_TYPE_DOUBLE, OTF2_TYPE_INT32, OTF2_TYPE_INT64, OTF2_TYPE_STRING,
    OTF2_TYPE_UINT32, OTF2_TYPE_UINT64,
};
use crate::error::{Error, Result, checked_pointer, failure};
use crate::ffi::{
    OTF2_AttributeList, OTF2_AttributeList_AddAttribute, OTF2_AttributeList_Delete,
    OTF2_AttributeList_New, OTF2_AttributeList_RemoveAllAttributes, OTF2_AttributeValue, OTF2_Type,
};
use crate::refs::{AttributeRef, StringRef};
use crate::values::AttributeType;

/// Limit on the attributes of one event; the record must fit into a chunk.
const ATTRIBUTES_MAX: usize = 255;

/// Additional values of an event; an empty slice costs nothing.
pub(crate) type Attributes<'a> = &'a [(AttributeRef, AttributeValue)];

/// The value of an attribute or of a property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeValue {
    /// Unsigned, 32 bits.
    Uint32(u32),
    /// Unsigned, 64 bits.
    Uint64(u64),
    /// Signed, 32 bits.
    Int32(i32),
    /// Signed, 64 bits.
    Int64(i64),
    /// Floating point, 64 bits.
    Double(f64),
    /// A string of the archive.
    String(StringRef),
}

impl AttributeValue {
    /// The type to declare an attribute with such values.
    #[must_use]
    pub const fn attribute_type(self) -> AttributeType {
        AttributeType(self.to_c().0)
    }

    /// The type and the value for C.
    pub(crate) const fn to_c(self) -> (OTF2_Type, OTF2_AttributeValue) {
        match self {
            Self::Uint32(uint32) => (OTF2_TYPE_UINT32, OTF2_AttributeValue { uint32 }),
            Self::Uint64(uint64) => (OTF2_TYPE_UINT64, OTF2_AttributeValue { uint64 }),
            Self::Int32(int32) => (OTF2_TYPE_INT32, OTF2_AttributeValue { int32 }),
            Self::Int64(int64) => (OTF2_TYPE_INT64, OTF2_AttributeValue { int64 }),
            Self::Double(float64) => (OTF2_TYPE_DOUBLE, OTF2_AttributeValue { float64 }),
            Self::String(text) => (OTF2_TYPE_STRING, OTF2_AttributeValue { stringRef: text.id() }),
        }
    }
}

/// Encoding: the type, then the value, in the shortest form.
impl Field for AttributeValue {
    fn put(self, bytes: &mut Vec<u8>) {
        self.to_c().0.put(bytes);
        match self {
            Self::Uint32(value) => value.put(bytes),
            Self::Uint64(value) => value.put(bytes),
            Self::Int32(value) => i64::from(value).put(bytes),
            Self::Int64(value) => value.put(bytes),
            Self::Double(value) => value.to_bits().put(bytes),
            Self::String(text) => text.id().put(bytes),
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(bytes)? {
            OTF2_TYPE_UINT32 => Self::Uint32(Field::take(bytes)?),
            OTF2_TYPE_UINT64 => Self::Uint64(Field::take(bytes)?),
            OTF2_TYPE_INT32 => Self::Int32(i64::take(bytes)?.try_into().ok()?),
            OTF2_TYPE_INT64 => Self::Int64(Field::take(bytes)?),
            OTF2_TYPE_DOUBLE => Self::Double(f64::from_bits(Field::take(bytes)?)),
            OTF2_TYPE_STRING => Self::String(StringRef::new(Field::take(bytes)?)),
            _ => return None,
        })
    }
}

/// The library's list, filled for one event at a time; writing the event empties it.
#[derive(Debug)]
pub(crate) struct AttributeList(NonNull<OTF2_AttributeList>);

impl AttributeList {
    pub(crate) fn new() -> Result<Self> {
        checked_pointer(
            "create",
            || "an attribute list".into(),
            || {
                // SAFETY: the function has no preconditions.
                unsafe { OTF2_AttributeList_New() }
            },
        )
        .map(Self)
    }

    /// Checks that an event may have these attributes: [`AttributeList::fill`] will not refuse
    /// them.
    #[inline]
    pub(crate) fn check(&self, attributes: Attributes<'_>) -> Result<()> {
        let is_twice = |(index, it): (usize, &(AttributeRef, AttributeValue))| {
            attributes.iter().take(index).any(|other| other.0 == it.0)
        };
        if attributes.len() > ATTRIBUTES_MAX || attributes.iter().enumerate().any(is_twice) {
            self.fill(attributes)?;
            self.clear();
        }
        Ok(())
    }

    /// Returns the list for an event with these attributes: null for none.
    #[inline]
    pub(crate) fn fill(&self, attributes: Attributes<'_>) -> Result<*mut OTF2_AttributeList> {
        if attributes.is_empty() {
            return Ok(null_mut());
        }
        self.fill_some(attributes)
    }

    fn fill_some(&self, attributes: Attributes<'_>) -> Result<*mut OTF2_AttributeList> {
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(Error::TooMany {
                what: "attributes",
                given: attributes.len(),
                max: ATTRIBUTES_MAX,
            });
        }
        for &(attribute, value) in attributes {
            let (type_, value) = value.to_c();
            // SAFETY: the list lives as long as `self`; the value is initialised for `type_`.
            let code = unsafe {
                OTF2_AttributeList_AddAttribute(self.0.as_ptr(), attribute.id(), type_, value)
            };
            if code != OTF2_SUCCESS {
                let object = format!("attribute {} to an event", attribute.id());
                let error = failure("add", object, code);
                self.clear();
                return Err(error);
            }
        }
        Ok(self.0.as_ptr())
    }

    /// Removes the rest of a failed event.
    pub(crate) fn clear(&self) {
        // SAFETY: the list lives as long as `self`. The call cannot fail for a valid list.
        unsafe { OTF2_AttributeList_RemoveAllAttributes(self.0.as_ptr()) };
    }
}

impl Drop for AttributeList {
    fn drop(&mut self) {
        // SAFETY: created by `new` and deleted only here; no event refers to it.
        unsafe { OTF2_AttributeList_Delete(self.0.as_ptr()) };
    }
}
