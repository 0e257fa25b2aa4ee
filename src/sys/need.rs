//! Requirements of unit tests, as `tests/support/machine/requirements.rs` has them for the
//! integration tests.

/// True for root. Otherwise the caller returns at once: the test is reported as skipped, and fails
/// where `CI` is `true`.
#[track_caller]
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub fn root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "cannot run in CI: not root");
        println!("skipped: not root");
    }
    is_root
}
