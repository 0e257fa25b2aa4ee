//! What unit tests of this package need of the machine, as `tests/support/machine/requirements.rs` has it for the others.

/// True for root. Otherwise the test is to return at once; that it is skipped is said, and fails where `CI` is `true`.
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
