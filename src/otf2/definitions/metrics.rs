//! Metrics of devices, recorded by their own locations.

use otf2_sys::{
    GlobalDefs, MetricBase, MetricMember, MetricMemberRef, MetricMode, MetricOccurrence,
    MetricType, RecorderKind,
};

use crate::otf2::block::{BYTES, REQUESTS};
use crate::otf2::error::OtfError;

/// Writes the metrics.
pub(super) fn write(defs: &mut GlobalDefs<'_>) -> Result<(), OtfError> {
    let members = [
        (
            "requests waiting",
            "Requests that have begun, have not ended, and are not at the driver.",
            MetricMode::ABSOLUTE_NEXT,
            "requests",
        ),
        (
            "requests at the driver",
            "Requests that the driver has.",
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
    let [waiting, at_driver, read, written] = [0, 1, 2, 3].map(MetricMemberRef::new);
    let (occurrence, recorder) = (MetricOccurrence::ASYNCHRONOUS, RecorderKind::ABSTRACT);
    defs.metric_class(REQUESTS, &[waiting, at_driver], occurrence, recorder)?;
    Ok(defs.metric_class(BYTES, &[read, written], occurrence, recorder)?)
}
