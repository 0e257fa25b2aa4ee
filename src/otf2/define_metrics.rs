//! The metrics of devices, recorded by their own locations.

use otf2_sys::{
    GlobalDefs, MetricBase, MetricMember, MetricMemberRef, MetricMode, MetricOccurrence,
    MetricType, RecorderKind,
};

use super::block::{BYTES, IN_FLIGHT};
use super::error::OtfError;

/// Writes them.
pub(super) fn write(defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
    let members = [
        (
            "requests in flight",
            "Requests that have begun and not ended.",
            MetricMode::ABSOLUTE_NEXT,
            "requests",
        ),
        (
            "bytes read",
            "Bytes of reads that were done without error.",
            MetricMode::ACCUMULATED_START,
            "bytes",
        ),
        (
            "bytes written",
            "Bytes of writes that were done without error.",
            MetricMode::ACCUMULATED_START,
            "bytes",
        ),
    ];
    for (id, (name, description, mode, unit)) in (0..).zip(members) {
        let member = MetricMember {
            name: defs.string(name)?,
            description: defs.string(description)?,
            metric_type: MetricType::OTHER,
            mode,
            base: MetricBase::DECIMAL,
            exponent: 0,
            unit: defs.string(unit)?,
        };
        defs.metric_member(MetricMemberRef::new(id), &member)?;
    }
    let [in_flight, read, written] = [0, 1, 2].map(MetricMemberRef::new);
    let (occurrence, recorder) = (MetricOccurrence::ASYNCHRONOUS, RecorderKind::ABSTRACT);
    defs.metric_class(IN_FLIGHT, &[in_flight], occurrence, recorder)?;
    Ok(defs.metric_class(BYTES, &[read, written], occurrence, recorder)?)
}
