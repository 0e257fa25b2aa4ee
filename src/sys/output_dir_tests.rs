use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use super::*;
use crate::sys::need;

/// An unprivileged user.
const OTHER: u32 = 65534;

/// Returns the error of opening, as text.
#[track_caller]
fn refused(path: &Path) -> String {
    let error = OutputDirectory::open(path, &Users::none()).expect_err("it is refused");
    assert!(is_refused(&error), "{error}");
    error.to_string()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

/// Fails if root writes where another user can exchange a step of the path.
#[test]
fn steps_of_other_users_are_refused() {
    if !need::root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (above, below) = (dir.path().join("above"), dir.path().join("above/below"));
    fs::create_dir_all(&below).expect("space");
    let open = || OutputDirectory::open(&below, &Users::none());
    open().expect("all of it is root's");
    chown(&above, Some(OTHER), None).expect("given away");
    assert!(refused(&below).contains("above belongs to user 65534 "));
    let error = refused(&below);
    assert!(error.contains("and root writes nothing below it"), "{error}");
    assert!(error.contains("such as /var/tmp, or record as that user: --as-user "), "{error}");
    chown(&above, Some(0), Some(OTHER)).expect("taken back");
    for (wanted, why) in [(0o777, "by all users"), (0o775, "by group 65534")] {
        mode(&above, wanted);
        assert!(refused(&below).contains(why) && !refused(&below).contains("--as-user"));
    }
    // A user without an account.
    chown(&above, Some(3_999_999_999), None).expect("given away");
    assert!(refused(&below).ends_with("--as-user 3999999999"), "{}", refused(&below));
    chown(&above, Some(0), None).expect("taken back");
    // Like `/tmp`: an entry can only be renamed by its owner.
    mode(&above, 0o1777);
    open().expect("only root can exchange it");
    symlink("below", above.join("link")).expect("a link");
    OutputDirectory::open(&above.join("link"), &Users::none()).expect("root's own link");
    nix::unistd::fchownat(
        nix::fcntl::AT_FDCWD,
        &above.join("link"),
        Some(Uid::from_raw(OTHER)),
        None,
        AtFlags::AT_SYMLINK_NOFOLLOW,
    )
    .expect("given away");
    assert!(refused(&above.join("link")).contains("link belongs to user 65534"));
}

/// Fails if a user may not write where root's rights are refused, as on a file server that maps
/// root to an unprivileged user.
#[test]
fn output_is_written_by_the_user_where_root_may_not() {
    if !need::root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    mode(dir.path(), 0o755);
    let (middle, own) = (dir.path().join("middle"), dir.path().join("middle/own"));
    fs::create_dir_all(&own).expect("space");
    chown(&own, Some(OTHER), Some(OTHER)).expect("given away");
    chown(&middle, Some(0), Some(OTHER)).expect("ours");
    // The owner may not search the directory, the group may.
    mode(&middle, 0o050);
    for capability in [caps::Capability::CAP_DAC_OVERRIDE, caps::Capability::CAP_DAC_READ_SEARCH] {
        // The capabilities of this thread only, which ends with the test.
        caps::drop(None, caps::CapSet::Effective, capability).expect("less is allowed");
        caps::drop(None, caps::CapSet::Permitted, capability).expect("less is allowed");
    }
    let other = Identity::of_number(OTHER).expect("a list of users").expect("an account");
    let users = Users { caller: Some(FsIdentity::of(&other)), program: None };
    assert!(OutputDirectory::open(&own, &Users::none()).is_err(), "root goes there");
    let held = OutputDirectory::open(&own, &users).expect("the user goes there");
    let made = held.create(OsStr::new("file")).expect("its own");
    assert_eq!(made.metadata().expect("it is open").uid(), OTHER);
    drop((made, held));
    mode(&middle, 0o700);
}

/// Fails if files in a user's directory are root's, or if root's rights help to create them.
#[test]
fn output_in_a_user_directory_is_written_by_that_user() {
    if !need::root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    mode(dir.path(), 0o755);
    let (own, roots) = (dir.path().join("own"), dir.path().join("own/roots"));
    fs::create_dir_all(&roots).expect("space");
    chown(&own, Some(OTHER), Some(OTHER)).expect("given away");
    let other = Identity::of_number(OTHER).expect("a list of users").expect("an account");
    let users = Users { caller: Some(FsIdentity::of(&other)), program: None };
    let directory = OutputDirectory::open(&own, &users).expect("its own");
    directory.create(OsStr::new("file")).expect("its own");
    let made = directory.make_directory(OsStr::new("made")).expect("its own");
    made.create(OsStr::new("file")).expect("its own");
    for path in ["file", "made", "made/file"] {
        assert_eq!(own.join(path).metadata().expect("it is there").uid(), OTHER, "{path}");
    }
    let error = OutputDirectory::open(&roots, &users).expect_err("root's");
    assert!(is_refused(&error), "{error}");
    // Where only root can write, root creates the files and gives them away.
    let made = OutputDirectory::make(&dir.path().join("given"), &users).expect("made");
    made.create(OsStr::new("file")).expect("made");
    NewFile::create(&dir.path().join("file"), &users).expect("made").keep();
    for path in ["given", "given/file", "file"] {
        assert_eq!(dir.path().join(path).metadata().expect("it is there").uid(), OTHER, "{path}");
    }
}

/// Fails if an existing entry is opened, followed, replaced or removed.
#[test]
fn existing_files_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let directory = OutputDirectory::open(dir.path(), &Users::none()).expect("own");
    fs::write(dir.path().join("file"), "kept").expect("space");
    fs::create_dir(dir.path().join("full")).expect("space");
    fs::write(dir.path().join("full/file"), "").expect("space");
    symlink("nowhere", dir.path().join("link")).expect("a link");
    for name in ["file", "link", "full"].map(OsStr::new) {
        let errors = [directory.create(name).err(), directory.make_directory(name).err()];
        for error in errors.map(|it| it.expect("it is there")) {
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        let new = OsStr::new("new");
        directory.create(new).expect("it is not there");
        let renamed = directory.rename_new(new, &directory, name).expect_err("it is there");
        assert_eq!(renamed.kind(), io::ErrorKind::AlreadyExists);
        directory.remove(new).expect("own");
    }
    assert!(directory.append(OsStr::new("link")).is_err());
    for name in ["", ".", "..", "full/file", "/"].map(OsStr::new) {
        assert!(directory.create(name).is_err(), "{name:?}");
    }
    let mut new = NewFile::create(&dir.path().join("new"), &Users::none()).expect("own");
    fs::rename(dir.path().join("file"), dir.path().join("new")).expect("exchanged");
    new.is_kept = false;
    drop(new);
    assert_eq!(fs::read_to_string(dir.path().join("new")).expect("it stays"), "kept");
    symlink(dir.path(), dir.path().join("full/up")).expect("a link");
    directory.remove(OsStr::new("full")).expect("own");
    assert!(dir.path().join("new").exists() && !dir.path().join("full").exists());
}

/// Fails if root's rights remove files below a directory that was given to another user.
#[test]
fn files_in_a_user_directory_are_removed_by_that_user() {
    if !need::root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let other = Identity::of_number(OTHER).expect("it is known").expect("there is one");
    let users = Users { caller: Some(FsIdentity::of(&other)), program: None };
    let parent = OutputDirectory::open(dir.path(), &users).expect("root's own");
    let own = parent.make_directory(OsStr::new("own")).expect("a new one");
    own.make_below(Path::new("a/b")).expect("a new file");
    parent.remove(OsStr::new("own")).expect("all of it is the user's");
    assert!(!dir.path().join("own").exists());

    parent.make_directory(OsStr::new("exchanged")).expect("a new one");
    let roots = dir.path().join("exchanged/roots");
    fs::create_dir(&roots).expect("root may");
    fs::write(roots.join("file"), "").expect("root may");
    assert!(parent.remove(OsStr::new("exchanged")).is_err());
    assert!(roots.join("file").exists());
}

/// Fails if a removal goes on in another file system that was mounted there.
#[test]
fn mounts_in_the_directory_stay() {
    use nix::mount::{MntFlags, MsFlags, mount, umount2};

    if !need::root() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let parent = OutputDirectory::open(dir.path(), &Users::none()).expect("root's own");
    let inside = dir.path().join("removed/inside");
    fs::create_dir_all(&inside).expect("space");
    mount(Some("none"), &inside, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("root may");
    fs::write(inside.join("file"), "").expect("space");
    let removed = parent.remove(OsStr::new("removed"));
    let stays = inside.join("file").exists();
    umount2(&inside, MntFlags::MNT_DETACH).expect("ours");
    assert_eq!(removed.expect_err("something is mounted").kind(), io::ErrorKind::CrossesDevices);
    assert!(stays);
}

/// Fails if lines are added to a file that has another name, too, or if a FIFO blocks its writer.
#[test]
fn lines_are_added_to_own_files_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let held = OutputDirectory::open(dir.path(), &Users::none()).expect("our own");
    for _ in 0..2 {
        held.append(OsStr::new("own")).expect("a file");
    }
    fs::hard_link(dir.path().join("own"), dir.path().join("second")).expect("a link");
    nix::unistd::mkfifo(&dir.path().join("fifo"), Mode::S_IRWXU).expect("a FIFO");
    for name in ["own", "fifo"] {
        assert!(held.append(OsStr::new(name)).is_err(), "{name}");
    }
}
