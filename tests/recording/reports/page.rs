//! The page of a recording that is not kept: the traced program does not see it.

use std::process::Command;

use crate::support::driver::process;
use crate::support::driver::recording::{BINARY, TIMEOUT, can_record};
use crate::support::machine::turns::beside_others;
use crate::support::scratch_dir;

#[test]
fn traced_program_sees_no_page() {
    if !can_record(&[]) {
        return;
    }
    let _turn = beside_others();
    let dir = scratch_dir("page");
    let mut command = Command::new(BINARY);
    command.args(["report", "--", "ls", "-a"]).current_dir(dir.path());
    let finished = process::run(&mut command, TIMEOUT).expect("it ends").success();
    assert_eq!(finished.stdout(), ".\n..\n");
    let page = std::fs::read_to_string(dir.path().join("report.html")).expect("a page");
    assert!(page.contains("<code>ls -a</code>"));
    let entries = std::fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(entries, 1);
    // The name is taken now: the next program does not start.
    let mut command = Command::new(BINARY);
    command.args(["report", "--", "touch", "ran"]).current_dir(dir.path());
    let refused = process::run(&mut command, TIMEOUT).expect("it ends");
    assert!(refused.stderr().contains("report.html is there already"), "{}", refused.stderr());
    assert!(!dir.path().join("ran").exists());
}
