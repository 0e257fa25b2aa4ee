use super::*;
use crate::operation::model::FilePath;

const OTHER: MountNamespace = MountNamespace(7);

fn spot(path: &str, sure: bool) -> NamedPlace {
    NamedPlace { path: path.into(), mounts: MountNamespace::OWN, sure }
}

fn renamed(from: &str, to: &str) -> NameChange {
    NameChange::Renamed { from: spot(from, true), to: spot(to, true), exchange: false }
}

fn removed(path: &str) -> NameChange {
    NameChange::Removed(spot(path, true))
}

fn named(path: &str, source: PathSource, changes: &NameChanges) -> NamedFile {
    let path = Some(FilePath::new(path, source));
    let (first_path, given, stat, flags) = (None, None, None, None);
    let file = OpenFile { id: 0, path, first_path, given, stat, flags, pre_created: false };
    NamedFile::new(&Arc::new(file), KernelTime(10), changes)
}

fn text(file: &mut NamedFile, changes: &NameChanges) -> String {
    let file = file.now(changes);
    let path = file.path.as_ref().expect("named");
    format!("{} {}", String::from_utf8_lossy(&path.bytes), path.source.as_str())
}

fn journal(all: &[NameChange]) -> NameChanges {
    let mut changes = NameChanges::default();
    let span = CallSpan { start: KernelTime(20), end: KernelTime(21) };
    all.iter().for_each(|it| changes.changed(it, span, true));
    changes
}

#[track_caller]
fn check(path: &str, all: &[NameChange], expected: &str) {
    let mut file = named(path, PathSource::Link, &NameChanges::default());
    assert_eq!(text(&mut file, &journal(all)), expected);
}

#[test]
fn a_name_follows_renames_of_it_and_of_directories_above() {
    let all = [renamed("/a/b", "/a/c"), renamed("/a", "/d"), renamed("/d/c", "/d/e")];
    check("/a/b", &all, "/d/e renamed");
    check("/a/b/f", &all, "/d/e/f renamed");
    check("/a/bb", &all[..1], "/a/bb fd-link");
    check("/d/x", &all, "/d/x fd-link");
}

#[test]
fn removed_or_replaced_file_stays_deleted() {
    let all = [removed("/a/b"), renamed("/a/new", "/a/b"), renamed("/a", "/c")];
    check("/a/b", &all[..1], "/a/b (deleted) renamed");
    check("/a/b", &all, "/c/b (deleted) renamed");
    check("/a/new", &all, "/c/b renamed");
    check("/a/b", &all[1..], "/c/b (deleted) renamed");
}

#[test]
fn exchange_swaps_the_names() {
    let exchange = true;
    let all = [NameChange::Renamed { from: spot("/a", true), to: spot("/b", true), exchange }];
    check("/a/x", &all, "/b/x renamed");
    check("/b", &all, "/a renamed");
}

#[test]
fn uncertain_name_is_unverified() {
    let unsure =
        [NameChange::Renamed { from: spot("/l/b", false), to: spot("/x", true), exchange: false }];
    check("/a/b/c", &unsure, "/a/b/c unverified");
    check("/a/c", &unsure, "/a/c fd-link");
    check("/a/b", &[NameChange::Removed(spot("/l/b", false))], "/a/b unverified");
    // A path as the program spelled it may lead through a link.
    let changes = journal(&[renamed("/a/b", "/a/c")]);
    let mut file = named("/a/b", PathSource::Kernel, &NameChanges::default());
    assert_eq!(text(&mut file, &changes), "/a/b unverified");
    // The name was read during the call.
    let mut changes = NameChanges::default();
    let span = CallSpan { start: KernelTime(5), end: KernelTime(21) };
    changes.changed(&renamed("/a/b", "/a/c"), span, true);
    let mut file = named("/a/b", PathSource::Link, &NameChanges::default());
    assert_eq!(text(&mut file, &changes), "/a/b unverified");
}

#[test]
fn rename_of_an_unknown_file_affects_all_candidates() {
    let mut changes = NameChanges::default();
    changes.renamed_somewhere(Some([b"b", b"z"]));
    let mut files =
        ["/a/b/c", "/a/c"].map(|it| named(it, PathSource::Link, &NameChanges::default()));
    assert_eq!(text(&mut files[0], &changes), "/a/b/c unverified");
    assert_eq!(text(&mut files[1], &changes), "/a/c fd-link");
    changes.renamed_somewhere(None);
    assert_eq!(text(&mut files[1], &changes), "/a/c unverified");
}

#[test]
fn below_a_mount_a_path_is_another_files() {
    let mut changes = NameChanges::default();
    changes.covered(Some(&spot("/a", true)), None);
    let mut file = named("/a/b", PathSource::Link, &NameChanges::default());
    assert_eq!(text(&mut file, &changes), "/a/b fd-link");
    let span = CallSpan { start: KernelTime(20), end: KernelTime(21) };
    changes.changed(&renamed("/a/b", "/a/c"), span, true);
    assert_eq!(text(&mut file, &changes), "/a/b unverified");
}

#[test]
fn in_other_mounts_a_change_makes_like_names_doubtful() {
    let mut changes = NameChanges::default();
    let span = CallSpan { start: KernelTime(20), end: KernelTime(21) };
    let elsewhere = NamedPlace { path: b"/upper/b".into(), mounts: OTHER, sure: true };
    changes.changed(&NameChange::Removed(elsewhere), span, false);
    let mut files = ["/a/b", "/a/c"].map(|it| named(it, PathSource::Link, &NameChanges::default()));
    assert_eq!(text(&mut files[0], &changes), "/a/b unverified");
    assert_eq!(text(&mut files[1], &changes), "/a/c fd-link");
}

#[test]
fn changes_before_the_name_do_not_affect_it() {
    let mut changes = journal(&[renamed("/a", "/b")]);
    let mut file = named("/a", PathSource::Link, &changes);
    assert_eq!(text(&mut file, &changes), "/a fd-link");
    changes.forget();
    let span = CallSpan { start: KernelTime(30), end: KernelTime(31) };
    changes.changed(&renamed("/a", "/c"), span, true);
    assert_eq!((text(&mut file, &changes), changes.next()), ("/c renamed".to_owned(), 2));
}
