//! Tests that hold for both sources of events. Each function that takes a [`Source`] is two tests:
//! `tracefs::NAME` and `perf::NAME`. A function with `#[test]` of its own names its source itself,
//! or starts the program through a shell, without a source: the source does not matter there.
//!
//! [`Source`]: crate::support::driver::recording::Source

/// Makes two tests of each of these functions.
macro_rules! for_each_source {
    ($($name:ident),+ $(,)?) => {
        mod tracefs {
            use crate::support::driver::recording::Source;

            $(#[test]
            fn $name() {
                super::$name(Source::Tracefs);
            })+
        }

        mod perf {
            use crate::support::driver::recording::Source;

            $(#[test]
            fn $name() {
                super::$name(Source::Perf);
            })+
        }
    };
}

mod asynchronous;
mod attach;
mod block;
mod byte_accounting;
mod faults;
mod record;
mod scope;
mod signals;
