//! Partial plans of programs that make, rename and remove names at random, replayed by an equally
//! simple kernel: wanted operations are replayed, and everything has the same result.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;

use super::dependency_selection_tests::{RecordedProgram, given};
use super::tests::{KeptOps, TestCall};
use super::*;
use crate::analysis::filter::{Events, Filter};
use crate::event::FileStat;
use crate::event::syscall_table::CallId;
use crate::operation::model::{FilePath, OpenFile, PathArguments, PathSource};
use crate::replay::plan::handles::Handle;
use crate::replay::plan::namespace::EntryKind as Kind;
use crate::units::{DevId, Fd};

/// Entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelNode {
    Directory,
    /// File, by its number.
    File(usize),
}

/// Names and files, as a kernel has them.
#[derive(Debug, Default)]
struct ModelKernel {
    names: BTreeMap<String, ModelNode>,
    /// Length of each file, bytes.
    files: Vec<u64>,
    /// Inode number of each file that is there. Another file gets the number when the file is gone.
    inodes: BTreeMap<usize, u64>,
    /// Files that are open.
    held: Vec<usize>,
}

fn error(errno: i32) -> i64 {
    -i64::from(errno)
}

impl ModelKernel {
    /// Returns the entry at a path, if the names that lead there are directories.
    fn find(&self, path: &str) -> Result<Option<ModelNode>, i32> {
        let ends = path.match_indices('/').skip(1).map(|(at, _)| at);
        for end in ends {
            match self.names.get(&path[..end]) {
                Some(ModelNode::Directory) => {}
                Some(ModelNode::File(_)) => return Err(libc::ENOTDIR),
                None => return Err(libc::ENOENT),
            }
        }
        Ok(self.names.get(path).copied())
    }

    fn is_empty(&self, directory: &str) -> bool {
        let below = format!("{directory}/");
        let mut after = self.names.range::<str, _>((Bound::Excluded(&*below), Bound::Unbounded));
        after.next().is_none_or(|(name, _)| !name.starts_with(&below))
    }

    fn makes_file(&mut self, path: &str) -> ModelNode {
        let (file, node) = (self.files.len(), ModelNode::File(self.files.len()));
        let Self { inodes, held, names, .. } = self;
        let has_name = |file: &usize| names.values().any(|node| *node == ModelNode::File(*file));
        inodes.retain(|file, _| held.contains(file) || has_name(file));
        let free = (1..).find(|number| !inodes.values().any(|taken| taken == number));
        inodes.insert(file, free.expect("few files"));
        self.files.push(0);
        self.names.insert(path.to_owned(), node);
        node
    }

    fn mkdir(&mut self, path: &str) -> Result<i64, i32> {
        if self.find(path)?.is_some() {
            return Err(libc::EEXIST);
        }
        self.names.insert(path.to_owned(), ModelNode::Directory);
        Ok(0)
    }

    fn remove(&mut self, path: &str, is_directory: bool) -> Result<i64, i32> {
        match (self.find(path)?.ok_or(libc::ENOENT)?, is_directory) {
            (ModelNode::Directory, false) => return Err(libc::EISDIR),
            (ModelNode::File(_), true) => return Err(libc::ENOTDIR),
            (ModelNode::Directory, true) if !self.is_empty(path) => return Err(libc::ENOTEMPTY),
            _ => {}
        }
        self.names.remove(path);
        Ok(0)
    }

    fn link(&mut self, from: &str, to: &str) -> Result<i64, i32> {
        match (self.find(from)?.ok_or(libc::ENOENT)?, self.find(to)?) {
            (_, Some(_)) => Err(libc::EEXIST),
            (ModelNode::Directory, None) => Err(libc::EPERM),
            (file, None) => {
                self.names.insert(to.to_owned(), file);
                Ok(0)
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<i64, i32> {
        let node = self.find(from)?.ok_or(libc::ENOENT)?;
        if to.starts_with(&format!("{from}/")) {
            return Err(libc::EINVAL);
        }
        match (node, self.find(to)?) {
            (one, Some(other)) if one == other && (from == to || one != ModelNode::Directory) => {
                return Ok(0);
            }
            (_, Some(ModelNode::Directory)) if from.starts_with(&format!("{to}/")) => {
                return Err(libc::ENOTEMPTY);
            }
            (ModelNode::File(_), Some(ModelNode::Directory)) => return Err(libc::EISDIR),
            (ModelNode::Directory, Some(ModelNode::File(_))) => return Err(libc::ENOTDIR),
            (ModelNode::Directory, Some(ModelNode::Directory)) if !self.is_empty(to) => {
                return Err(libc::ENOTEMPTY);
            }
            _ => {}
        }
        let below = format!("{from}/");
        let is_moved = |name: &String| name == from || name.starts_with(&below);
        let moved: Vec<String> = self.names.keys().filter(|name| is_moved(name)).cloned().collect();
        for path in moved {
            let node = self.names.remove(&path).expect("found");
            self.names.insert(format!("{to}{}", &path[from.len()..]), node);
        }
        Ok(0)
    }

    fn open(&mut self, path: &str, flags: i32) -> Result<ModelNode, i32> {
        let creates = flags & libc::O_CREAT != 0;
        let node = match self.find(path)? {
            Some(_) if creates && flags & libc::O_EXCL != 0 => return Err(libc::EEXIST),
            Some(ModelNode::Directory) if flags & libc::O_ACCMODE != 0 => return Err(libc::EISDIR),
            Some(node) => node,
            None if creates => self.makes_file(path),
            None => return Err(libc::ENOENT),
        };
        if let ModelNode::File(file) = node
            && flags & libc::O_TRUNC != 0
        {
            self.files[file] = 0;
        }
        Ok(node)
    }

    /// Executes a call with one path or two, other than an open. Returns its result.
    fn names(&mut self, name: &str, first: &str, second: &str) -> i64 {
        let result = match name {
            "mkdir" => self.mkdir(first),
            "rmdir" => self.remove(first, true),
            "unlink" => self.remove(first, false),
            "link" => self.link(first, second),
            "rename" => self.rename(first, second),
            _ => self.find(first).and_then(|node| node.map(|_| 0).ok_or(libc::ENOENT)),
        };
        result.unwrap_or_else(error)
    }

    /// Executes a call on an open file. Returns its result.
    fn moves(&mut self, name: &str, node: ModelNode, offset: u64, bytes: u64) -> i64 {
        let ModelNode::File(file) = node else { return error(libc::EISDIR) };
        let length = &mut self.files[file];
        let moved = match name {
            "pread64" => length.saturating_sub(offset).min(bytes),
            "pwrite64" => {
                *length = (*length).max(offset + bytes);
                bytes
            }
            _ => {
                *length = offset;
                0
            }
        };
        moved.cast_signed()
    }
}

const NAMES: [&str; 6] = ["mkdir", "rmdir", "unlink", "link", "rename", "newstat"];
const FLAGS: [i32; 5] = [
    libc::O_RDONLY,
    libc::O_RDWR,
    libc::O_RDWR | libc::O_CREAT,
    libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
    libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
];
const MOVES: [&str; 3] = ["pread64", "pwrite64", "ftruncate"];

/// Returns one of 14 paths.
fn path(choice: u8) -> String {
    let names = ["/a", "/b"];
    let depth = usize::from(choice % 3) + 1;
    (0..depth).map(|level| names[usize::from(choice >> (level + 4)) & 1]).collect()
}

/// Program, and the kernel that executes it.
#[derive(Debug, Default)]
struct OriginalProgram {
    program: RecordedProgram,
    kernel: ModelKernel,
    open: BTreeMap<u64, (Arc<OpenFile>, ModelNode)>,
    opened: u64,
}

impl OriginalProgram {
    fn does(&mut self, [what, which, one, other]: [u8; 4]) {
        let (first, second) = (path(one), path(other));
        let open: Vec<u64> = self.open.keys().copied().collect();
        let fd = open.get(usize::from(which) % open.len().max(1)).copied();
        match (what % 8, fd) {
            (0..=2, _) => self.names(NAMES[usize::from(which % 6)], &first, &second),
            (3 | 4, _) => self.opens(&first, FLAGS[usize::from(which % 5)]),
            (5 | 6, Some(fd)) => {
                let (offset, bytes) = (u64::from(one % 16), u64::from(other % 16) + 1);
                self.moves(MOVES[usize::from(other) % 3], fd, offset, bytes);
            }
            (7, Some(fd)) => self.closes(fd),
            _ => {}
        }
    }

    fn names(&mut self, name: &str, first: &str, second: &str) {
        let ret = self.kernel.names(name, first, second);
        let second = if matches!(name, "link" | "rename") { given(second) } else { None };
        let named = PathArguments { first: given(first), second };
        self.program.does(TestCall::new(name, [1, 1, 0, 0, 0, 0], ret), Some(named));
    }

    fn opens(&mut self, path: &str, flags: i32) {
        let result = self.kernel.open(path, flags);
        let fd = (3..).find(|fd| !self.open.contains_key(fd)).expect("few are open");
        let ret = result.map_or_else(error, |_| fd.cast_signed());
        let named = result.err().map(|_| PathArguments { first: given(path), second: None });
        let args = [0, 1, flags.cast_unsigned().into(), 0, 0, 0];
        self.program.does(TestCall::new("openat", args, ret), named);
        let Ok(node) = result else { return };
        let (mode, size, ino) = match node {
            ModelNode::Directory => (libc::S_IFDIR, 0, 0),
            ModelNode::File(file) => {
                self.kernel.held.push(file);
                (libc::S_IFREG, self.kernel.files[file], self.kernel.inodes[&file])
            }
        };
        let stat = Some(FileStat { mode: mode | 0o644, dev: DevId(0), ino, size });
        let file = Arc::new(OpenFile {
            id: self.opened,
            path: Some(FilePath::new(path, PathSource::Kernel)),
            first_path: None,
            given: None,
            stat,
            flags: Some(flags.cast_unsigned()),
            pre_created: false,
        });
        self.opened += 1;
        self.open.insert(fd, (Arc::clone(&file), node));
        let (operation, effects) = self.program.did.last_mut().expect("it was added");
        operation.file = Some(Arc::clone(&file));
        effects.push(FdEffect::Created { fd: number(fd), file });
    }

    fn moves(&mut self, name: &str, fd: u64, offset: u64, bytes: u64) {
        let (file, node) = self.open[&fd].clone();
        let args = match name {
            "ftruncate" => [fd, offset, 0, 0, 0, 0],
            _ => [fd, 1, bytes, offset, 0, 0],
        };
        let ret = self.kernel.moves(name, node, offset, bytes);
        self.program.does(TestCall::new(name, args, ret), None);
        let (operation, _) = self.program.did.last_mut().expect("it was added");
        (operation.fd, operation.file) = (Some(number(fd)), Some(file));
        if name != "ftruncate" {
            (operation.offset, operation.bytes_requested) = (Some(offset), Some(bytes));
        }
    }

    fn closes(&mut self, fd: u64) {
        let (file, node) = self.open.remove(&fd).expect("open");
        let held = &mut self.kernel.held;
        let place = held.iter().position(|held| node == ModelNode::File(*held));
        place.map(|place| held.swap_remove(place));
        self.program.does(TestCall::new("close", [fd, 0, 0, 0, 0, 0], 0), None);
        let (operation, effects) = self.program.did.last_mut().expect("it was added");
        (operation.fd, operation.file) = (Some(number(fd)), Some(Arc::clone(&file)));
        effects.push(FdEffect::Destroyed { fd: number(fd), file });
    }
}

fn number(fd: u64) -> Fd {
    Fd(i32::try_from(fd).expect("a small one"))
}

/// Replays a plan on the initial files that it requires. Returns the calls whose results differ
/// from the capture.
fn replayed(planner: &Planner<KeptOps>) -> Vec<String> {
    let mut kernel = ModelKernel::default();
    let mut made = BTreeMap::new();
    for entry in planner.world.entries() {
        let path = String::from_utf8(entry.path).expect("text");
        match entry.thing {
            Kind::File(file) => {
                let node = *made.entry(file).or_insert_with(|| {
                    kernel.files.push(planner.world.size(file).first());
                    ModelNode::File(kernel.files.len() - 1)
                });
                kernel.names.insert(path, node);
            }
            _ => drop(kernel.names.insert(path, ModelNode::Directory)),
        }
    }
    let mut open: BTreeMap<Handle, ModelNode> = BTreeMap::new();
    let mut others = Vec::new();
    for op in &planner.out.0 {
        let name = op.call.call().name;
        let text = |path: &Option<Vec<u8>>| {
            String::from_utf8(path.clone().unwrap_or_default()).expect("text")
        };
        let (first, second) = (text(&op.path), text(&op.second_path));
        let node = op.handle.and_then(|handle| open.get(&handle).copied());
        let ret = match (name, node) {
            ("openat", _) => {
                let flags = i32::try_from(op.args[2]).expect("flags");
                let result = kernel.open(&first, flags);
                if let (Ok(node), Some(made)) = (result, op.makes) {
                    open.insert(made, node);
                }
                result.map_or_else(error, |_| op.ret.max(0))
            }
            ("close", Some(_)) => {
                open.remove(&op.handle.expect("it has one"));
                0
            }
            ("ftruncate", Some(node)) => kernel.moves(name, node, op.args[1], 0),
            ("pread64" | "pwrite64", Some(node)) => {
                kernel.moves(name, node, op.args[3], op.args[2])
            }
            (_, None) if op.path.is_some() => kernel.names(name, &first, &second),
            _ => error(libc::EBADF),
        };
        if ret != op.ret {
            others.push(format!("{name} {first} {second} at {}: {ret}, not {}", op.start, op.ret));
        }
    }
    others
}

impl OriginalProgram {
    /// Creates a program on a kernel with these names, which has opened all of them. Each is of a
    /// file with some bytes, or a further name of the file with the same number.
    fn on(names: &[(u8, u8)]) -> Self {
        let mut original = Self::default();
        let mut of: BTreeMap<u8, String> = BTreeMap::new();
        for (choice, number) in names {
            let (path, number) = (path(*choice), number % 4);
            (1..path.len() / 2).for_each(|depth| {
                let _ = original.kernel.mkdir(&path[..2 * depth]);
            });
            let made = match of.get(&number) {
                Some(first) => original.kernel.link(first, &path).is_ok(),
                None => original.kernel.open(&path, libc::O_CREAT | libc::O_EXCL).is_ok(),
            };
            if made {
                let length = 100 * u64::from(number);
                let node = original.kernel.names[&path];
                original.kernel.moves("ftruncate", node, length, 0);
                of.entry(number).or_insert(path);
            }
        }
        let names = &original.kernel.names;
        let files = names.iter().filter(|(_, node)| **node != ModelNode::Directory);
        let files: Vec<String> = files.map(|(path, _)| path.clone()).collect();
        for path in files {
            original.opens(&path, libc::O_RDWR);
            original.closes(3);
        }
        original
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Fails if two names of a file become two files, or two files that had the same inode one
    /// after the other become one.
    #[test]
    fn names_of_one_file_stay_names_of_one_file(
        names in prop::collection::vec(any::<(u8, u8)>(), 1..9),
        choices in prop::collection::vec(any::<[u8; 4]>(), 1..120),
    ) {
        let mut original = OriginalProgram::on(&names);
        choices.iter().for_each(|choice| original.does(*choice));
        let mut whole = Planner::new(KeptOps::default());
        let Ok(()) = original.program.feed(&mut whole);
        prop_assert_eq!(replayed(&whole), Vec::<String>::new());
        prop_assert_eq!(whole.world.unexplained, 0);
        let mut reasons = whole.skipped.keys().map(|(reason, _)| *reason);
        prop_assert!(reasons.all(|reason| reason == SkipReason::Rights), "{:?}", whole.skipped);
    }

    /// Fails if an operation is missing in the plan that affects a planned one.
    #[test]
    fn part_of_a_program_includes_its_dependencies(
        choices in prop::collection::vec(any::<[u8; 4]>(), 1..120),
        wanted in 0_usize..11,
        window in prop::option::of((any::<u16>(), any::<u16>())),
        forgets: bool,
    ) {
        let mut original = OriginalProgram::default();
        choices.iter().for_each(|choice| original.does(*choice));
        let program = &original.program;
        let calls: Vec<&str> = NAMES.into_iter().chain(MOVES).chain(["openat", "close"]).collect();
        let calls = vec![CallId::by_name(calls[wanted]).expect("there is one")];
        let time = |time: u16| KernelTime(u64::from(time) % (10 * program.did.len() as u64 + 1));
        let filter = Filter {
            events: Some(Events { calls: calls.clone(), ..Events::default() }),
            window: window.map(|(from, until)| (time(from), time(until))),
            ..Filter::default()
        };
        let whole = Planner::new(KeptOps::default());
        let mut whole = if forgets { whole.forgetting_at_once() } else { whole };
        let Ok(()) = program.feed(&mut whole);
        prop_assert_eq!(replayed(&whole), Vec::<String>::new(), "the whole");
        let planner = program.part_of(&filter, forgets);
        prop_assert_eq!(replayed(&planner), Vec::<String>::new());
        prop_assert_eq!(planner.inherited_fds.len(), 0);
        let is_wanted = |(operation, _): &&(Box<SyscallOperation>, Vec<FdEffect>)| {
            let end = operation.end.expect("it has ended");
            calls.contains(&operation.call)
                && filter.window.is_none_or(|(from, until)| from < end && end <= until)
        };
        let wanted = program.did.iter().filter(is_wanted).count() as u64;
        prop_assert_eq!(planner.done.values().sum::<u64>() + planner.skipped.values().sum::<u64>() - planner.needed, wanted);
    }
}
