//! Tests that hold for both sources of events. `scripts/test` runs them with the source that a
//! recording takes by itself, and a second time with `IOTRACE_TEST_SOURCE=perf`.

mod asynchronous;
mod attach;
mod block;
mod byte_accounting;
mod faults;
mod record;
mod signals;
