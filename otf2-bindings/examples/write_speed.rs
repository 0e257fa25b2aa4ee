//! Speed of writing events: a million system calls each as enter, begin, complete, leave.
//!
//! `cargo run --release -p otf2-sys --example write_speed -- DIRECTORY [OPERATIONS]`

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use otf2_sys::{
    Archive, IoBegin, IoHandleRef, IoOperationFlags, IoOperationMode, LocationGroupRef,
    LocationGroupType, LocationType, Options, RegionRef, SystemTreeNodeRef,
};

#[expect(clippy::print_stdout, reason = "the result")]
#[expect(clippy::disallowed_methods, reason = "measures time")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: write_speed DIRECTORY [OPERATIONS]")?;
    let operations: u32 = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;

    let mut archive = Archive::create(Path::new(&dir), "speed", Options::default())?;
    let mut writer = archive.event_writer()?;
    let region = RegionRef::new(0);
    let start = Instant::now();
    let (mut time, mut random) = (1_700_000_000_000_000_000_u64, 88_172_645_463_325_252_u64);
    for _ in 0..operations {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let handle = IoHandleRef::new(u32::try_from(random % 1000)?);
        let bytes = (random >> 32) & 0x1_ffff;
        let begin = IoBegin {
            handle,
            mode: IoOperationMode::READ,
            flags: IoOperationFlags::NONE,
            bytes_request: Some(bytes),
            matching_id: 0,
        };
        time += 700 + (random & 1023);
        writer.enter(time, region, &[])?;
        writer.io_operation_begin(time, &begin, &[])?;
        time += 900 + (random >> 54);
        writer.io_operation_complete(time, handle, Some(bytes), 0, &[])?;
        writer.leave(time, region, &[])?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.2} M operations/s", f64::from(operations) / seconds / 1e6);
    println!("{:?}", archive.memory_use());

    let location = writer.location();
    let events = archive.close_event_writer(writer)?;
    println!("{events} events");
    archive.finish(|defs| -> otf2_sys::Result<()> {
        let (first, last) = defs.event_times().unwrap_or((0, 0));
        defs.clock_properties(1_000_000_000, first, last - first, None)?;
        let name = defs.string("example")?;
        let (node, group) = (SystemTreeNodeRef::new(0), LocationGroupRef::new(0));
        defs.system_tree_node(node, name, name, None)?;
        defs.location_group(group, name, LocationGroupType::PROCESS, node, None)?;
        defs.location(location, name, LocationType::CPU_THREAD, group)
    })?;
    Ok(())
}
