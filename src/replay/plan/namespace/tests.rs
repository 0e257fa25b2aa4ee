use super::forgotten_numbers::{ForgottenNumbers, NUMBERS_MAX};
use super::*;
use crate::replay::plan::links::SymlinkMap;

/// Checks the initial entries, one line each: `d` for directories, `f` and a length for files, `→`
/// and the text for links.
#[track_caller]
fn check(happens: impl FnOnce(&mut FsModel), expected: &str) {
    check_with(&SymlinkMap::default(), happens, expected);
}

#[track_caller]
fn check_with(links: &SymlinkMap, happens: impl FnOnce(&mut FsModel), expected: &str) {
    let mut world = FsModel::with_links(links);
    happens(&mut world);
    let line = |entry: &ListedEntry| {
        let kind = match (entry.thing, &entry.text) {
            (EntryKind::Directory, _) => "d".to_owned(),
            (EntryKind::File(file), _) => format!("f{}", world.size(file).first()),
            (EntryKind::Link(_), Some(text)) => format!("→ {}", String::from_utf8_lossy(text)),
            (other, _) => format!("{other:?}"),
        };
        let gap = entry.gap.map(|gap| format!(" ({gap:?})")).unwrap_or_default();
        format!("{} {kind}{gap}", String::from_utf8_lossy(&entry.path))
    };
    let lines: Vec<String> = world.entries().iter().map(line).collect();
    assert_eq!(lines.join(", "), expected);
    assert_eq!(world.unexplained, 0);
}

fn at(world: &mut FsModel, path: &str) -> NodeId {
    let mut via = Vec::new();
    let node = world.reach(path.as_bytes(), false, &mut via).expect("from the root");
    world.record_traversed_links(&via);
    node
}

fn read(world: &mut FsModel, path: &str, bytes: u64) {
    let node = at(world, path);
    let file = world.file_there(node).expect("a file");
    world.size_mut(file).read(0, None, bytes);
}

#[test]
fn found_path_and_its_parents_were_there() {
    check(|world| read(world, "/a/b/c", 7), "/a d, /a/b d, /a/b/c f7");
}

#[test]
fn parent_of_a_dot_component_was_a_directory() {
    check(
        |world| {
            world.record_traversed_path(b"/a/b/../c", true);
            world.record_traversed_path(b"/dot/.", true);
            let seen = at(world, "/seen");
            world.was_there(seen, EntryKind::Any);
            world.record_traversed_path(b"/seen/../none", false);
            world.record_traversed_path(b"/never/../none", false);
        },
        "/a d, /a/b d, /dot d, /seen d",
    );
}

#[test]
fn created_entry_was_absent() {
    check(
        |world| {
            let directory = at(world, "/a/new");
            world.create_entry(directory, EntryKind::Directory);
            let file = at(world, "/a/new/file");
            world.create_file(Some(file));
            read(world, "/a/new/file", 0);
        },
        "/a d",
    );
}

#[test]
fn contents_decide_whether_an_open_created_the_file() {
    let open = |world: &mut FsModel, path: &str, bytes: u64| {
        let node = at(world, path);
        let file = world.perhaps_made(node);
        world.size_mut(file).read(0, None, bytes);
    };
    check(
        |world| {
            open(world, "/d/made", 0);
            open(world, "/d/there", 5);
        },
        "/d d, /d/there f5",
    );
}

#[test]
fn renamed_file_was_at_its_first_name() {
    check(
        |world| {
            let (from, to) = (at(world, "/a"), at(world, "/b"));
            world.renamed(from, to, false);
            read(world, "/b/x", 3);
            let gone = at(world, "/a/x");
            world.was_absent(gone, false);
            let again = at(world, "/a");
            world.create_entry(again, EntryKind::Directory);
            let empty = at(world, "/a/x");
            world.was_absent(empty, false);
        },
        "/a d, /a/x f3",
    );
}

#[test]
fn exchanged_file_was_at_the_other_name() {
    check(
        |world| {
            read(world, "/one", 1);
            read(world, "/two", 2);
            let (one, two) = (at(world, "/one"), at(world, "/two"));
            world.renamed(one, two, true);
            read(world, "/one", 20);
        },
        "/one f1, /two f20",
    );
}

#[test]
fn replaced_file_was_there_if_it_was_observed() {
    check(
        |world| {
            read(world, "/kept", 5);
            let new = at(world, "/kept.new");
            world.create_file(Some(new));
            let (from, to) = (at(world, "/kept.new"), at(world, "/kept"));
            world.renamed(from, to, false);
            read(world, "/kept", 0);
        },
        "/kept f5",
    );
}

#[test]
fn removed_entry_was_there() {
    check(
        |world| {
            let file = at(world, "/d/x");
            world.removed(file, EntryKind::Any);
            let directory = at(world, "/d");
            world.removed(directory, EntryKind::Directory);
            let again = at(world, "/d");
            world.create_entry(again, EntryKind::Directory);
            let none = at(world, "/d/x");
            world.was_absent(none, false);
        },
        "/d d, /d/x Any",
    );
}

#[test]
fn second_name_is_the_same_file() {
    check(
        |world| {
            let (from, to) = (at(world, "/a"), at(world, "/b"));
            world.linked(from, to);
            read(world, "/b", 9);
        },
        "/a f9",
    );
}

#[test]
fn contradictions_are_counted() {
    let mut world = FsModel::default();
    read(&mut world, "/a", 1);
    let file = at(&mut world, "/a");
    world.was_absent(file, false);
    let none = at(&mut world, "/none");
    world.was_absent(none, false);
    world.was_there(none, EntryKind::Any);
    assert_eq!(world.unexplained, 2);
}

/// Applies a change of names, if it is possible.
fn happens(world: &mut FsModel, [what, one, other]: [u8; 3]) -> Option<FileId> {
    const PATHS: [&str; 7] = ["/a", "/b", "/a/x", "/b/x", "/a/y", "/a/x/z", "/c"];
    let path = |choice: u8| PATHS[usize::from(choice) % PATHS.len()];
    let [node, second] = [path(one), path(other)].map(|path| at(world, path));
    let is_there = |world: &FsModel, node| world.entry_kind(node).is_some();
    let parent_is_absent =
        |world: &FsModel, node| world.ancestors(node).skip(1).any(|above| world.is_absent(above));
    if parent_is_absent(world, node) || parent_is_absent(world, second) {
        return None;
    }
    match what % 8 {
        0 if !world.is_absent(node) => return world.file_there(node),
        1 if !is_there(world, node) => world.was_absent(node, false),
        2 if !is_there(world, node) => return Some(world.create_file(Some(node))),
        3 if !is_there(world, node) => world.create_entry(node, EntryKind::Directory),
        4 if world.is_unasked(node) => return Some(world.perhaps_made(node)),
        5 if !world.is_absent(node) => world.removed(node, EntryKind::Any),
        6 if !world.is_absent(node) && one != other => {
            world.renamed(node, second, is_there(world, second) && what & 8 != 0);
        }
        7 if is_there(world, node) && !is_there(world, second) => world.linked(node, second),
        _ => {}
    }
    None
}

proptest::proptest! {
    /// Fails if the eviction of names that are gone makes a difference.
    #[test]
    fn evicted_entries_are_not_needed(
        all in proptest::collection::vec(proptest::prelude::any::<[u8; 3]>(), 1..60),
    ) {
        let (mut world, mut forgetful) = (FsModel::default(), FsModel::default());
        for change in all {
            let files = [happens(&mut world, change), happens(&mut forgetful, change)];
            proptest::prop_assert_eq!(files[0], files[1]);
            if let (Some(file), 9..) = (files[0], change[1]) {
                world.size_mut(file).read(0, None, u64::from(change[1]));
                forgetful.size_mut(file).read(0, None, u64::from(change[1]));
            }
            forgetful.forget_names(|_| false);
            forgetful.forget_files(|_| false);
            proptest::prop_assert_eq!(world.unexplained, forgetful.unexplained);
        }
        let of = |world: &FsModel| -> Vec<(ListedEntry, u64)> {
            let size = |entry: &ListedEntry| match entry.thing {
                EntryKind::File(file) => world.size(file).first(),
                _ => 0,
            };
            world.entries().into_iter().map(|entry| (entry.clone(), size(&entry))).collect()
        };
        proptest::prop_assert_eq!(of(&world), of(&forgetful));
    }
}

/// Fails if names that come and go leave state, or are not known to have been absent.
#[test]
fn temporary_entries_leave_no_state() {
    let mut world = FsModel::default();
    for number in 0..2003 {
        let node = at(&mut world, &format!("/d/{number}"));
        world.create_file(Some(node));
        world.removed(node, EntryKind::Any);
        if number % 100 == 0 {
            world.forget_names(|_| false);
            world.forget_files(|_| false);
        }
    }
    assert!(world.count() < 400, "{}", world.count());
    assert!(world.nodes.len() < 200 && world.firsts.len() < 200);
    let again = at(&mut world, "/d/7");
    assert!(world.is_absent(again) && !world.is_unasked(again));
    let new = at(&mut world, "/d/new");
    assert!(world.is_unasked(new));
}

/// Fails if directories in which nothing was found are kept forever, or become files when they are
/// found.
#[test]
fn directories_only_looked_in_leave_no_state() {
    let look = |world: &mut FsModel| {
        for number in 0..2003 {
            let node = at(world, &format!("/c/{number}/meta"));
            world.was_absent(node, false);
            if number % 100 == 0 {
                world.forget_names(|_| false);
            }
        }
        world.forget_names(|_| false);
        assert!(world.count() < 10, "{}", world.count());
        assert_eq!(world.lost(), 0);
        let found = at(world, "/c/7");
        world.was_there(found, EntryKind::Any);
    };
    check(look, "/c d, /c/7 d");
}

/// Fails if too many numbers are kept, or lost ones are not counted.
#[test]
fn numbers_that_are_lost_are_counted() {
    let mut numbers = ForgottenNumbers::default();
    let half = u64::from(NUMBERS_MAX) / 2;
    (0..3 * half).for_each(|number| numbers.add(number));
    assert!(numbers.has(half) && numbers.has(3 * half - 1));
    assert_eq!([numbers.has(0), numbers.has(half - 1)], [false; 2]);
    assert_eq!(numbers.lost(), half);
}

fn links(all: &[(&str, &str)]) -> SymlinkMap {
    all.iter().map(|(path, text)| (path.as_bytes().to_vec(), text.as_bytes().to_vec())).collect()
}

#[test]
fn entry_found_through_a_link_is_at_its_target() {
    let one = links(&[("/a/l", "d"), ("/m", "/a/l/e")]);
    check_with(
        &one,
        |world| {
            read(world, "/a/l/t", 7);
            let mut via = Vec::new();
            let node = world.reach(b"/m/x", true, &mut via).expect("from the root");
            let links = [at(world, "/m"), at(world, "/a/l")];
            assert_eq!(via, links);
            world.record_traversed_links(&via);
            assert_eq!(node, at(world, "/a/d/e/x"));
            world.was_absent(node, false);
        },
        "/a d, /a/d d, /a/d/t f7, /a/l → d, /m → /a/l/e",
    );
}

#[test]
fn unused_link_is_not_created() {
    check_with(
        &links(&[("/a/l", "d")]),
        |world| read(world, "/a/d/t", 7),
        "/a d, /a/d d, /a/d/t f7",
    );
}

#[test]
fn link_is_distinct_from_its_target() {
    check_with(
        &links(&[("/l", "d"), ("/long", "elsewhere"), ("/f", "g")]),
        |world| {
            let link = at(world, "/l");
            world.was_there(link, EntryKind::Any);
            assert_ne!(link, world.reach(b"/l", true, &mut Vec::new()).expect("from the root"));
            let link = at(world, "/long");
            world.was_there(link, EntryKind::Link(4));
            let link = at(world, "/f");
            world.removed(link, EntryKind::Any);
            let node = at(world, "/f/x");
            assert!(world.is_absent(node));
        },
        "/f → g, /l → d, /long → elsewhere (Text)",
    );
}

#[test]
fn renamed_link_keeps_its_text() {
    check_with(
        &links(&[("/a/l", "d")]),
        |world| {
            let (from, to) = (at(world, "/a"), at(world, "/b"));
            world.renamed(from, to, false);
            read(world, "/b/l/t", 3);
            let made = at(world, "/b/made");
            world.create_entry(made, EntryKind::Link(0));
            world.contains(made, b"l/x");
            read(world, "/b/made/y", 5);
        },
        "/a d, /a/d d, /a/d/t f3, /a/d/x d, /a/d/x/y f5, /a/l → d",
    );
}

#[test]
fn links_in_a_circle_lead_nowhere() {
    let mut world = FsModel::with_links(&links(&[("/a", "b"), ("/b", "/a/x"), ("/c", "c")]));
    for path in [&b"/a/t"[..], b"/c", b"/c/c"] {
        world.reach(path, true, &mut Vec::new()).expect("from the root");
    }
}

#[test]
fn entry_below_an_unknown_link_is_in_a_directory() {
    check(
        |world| {
            let link = at(world, "/l");
            world.was_there(link, EntryKind::Link(3));
            read(world, "/l/t", 7);
        },
        "/l d (Target), /l/t f7",
    );
}

/// Fails if a dangling link contradicts an operation that has found it.
#[test]
fn link_may_lead_nowhere() {
    let mut world = FsModel::default();
    let link = world.find(b"/l").expect("a place");
    world.was_there(link, EntryKind::Link(4));
    world.was_absent(link, true);
    assert_eq!(world.unexplained, 0);
    world.was_absent(link, false);
    assert_eq!(world.unexplained, 1);
}
