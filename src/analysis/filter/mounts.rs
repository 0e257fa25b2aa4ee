//! Mounts of a filter: by mount point, and by the type of the file system.

use super::globs::Globs;
use super::nearest::nearest;
use crate::operation::model::MountNamespace;
use crate::operation::mount_table::{FileMount, MountTable};
use crate::units::DevId;

/// Path and device of a file, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilePlace<'a> {
    pub(super) path: &'a [u8],
    pub(super) namespace: MountNamespace,
    pub(super) dev: Option<DevId>,
}

/// Mounts whose files are selected, and the mounts of the recording.
#[derive(Clone, Debug, Default)]
pub struct MountFilter {
    /// Mount points as given; empty selects all.
    points: Vec<String>,
    /// Types of file systems; `None` selects all.
    fs_types: Option<Globs>,
    /// Mounts of the recording; `None`: they are not known.
    table: Option<MountTable>,
}

impl MountFilter {
    /// Returns the filter of these mount points and types of file systems, which are patterns.
    ///
    /// # Errors
    ///
    /// The error of the first invalid pattern.
    pub fn new(points: &[String], fs_types: &[String]) -> Result<Self, globset::Error> {
        let bare = |point: &String| match point.trim_end_matches('/') {
            "" => "/".to_owned(),
            bare => bare.to_owned(),
        };
        let points = points.iter().map(bare).collect();
        Ok(Self { points, fs_types: Globs::of_words(fs_types)?, table: None })
    }

    /// Returns true if files of all mounts are selected.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.fs_types.is_none()
    }

    /// Sets the mounts of the recording.
    pub(super) fn learn(&mut self, table: &MountTable) {
        if !self.is_empty() {
            self.table = Some(table.clone());
        }
    }

    /// Returns true if one of the files is selected; without files, if no mount has to match.
    pub(super) fn selects<'a>(&self, files: impl IntoIterator<Item = FilePlace<'a>>) -> bool {
        let mut files = files.into_iter().peekable();
        match files.peek() {
            _ if self.is_empty() => true,
            Some(_) => files.any(|file| self.has(self.mount_of(file))),
            None => self.has(None),
        }
    }

    fn mount_of(&self, file: FilePlace<'_>) -> Option<FileMount<'_>> {
        let FilePlace { path, namespace, dev } = file;
        self.table.as_ref()?.of_file(path, namespace, dev)
    }

    /// Returns true if files of a mount are selected; `None`: the mount of the file is not known.
    fn has(&self, found: Option<FileMount<'_>>) -> bool {
        let mount = found.map(|found| found.mount);
        let is_point = |mount: &[u8]| self.points.iter().any(|point| point.as_bytes() == mount);
        let is_there = self.points.is_empty() || mount.is_some_and(|mount| is_point(&mount.point));
        let fs_type = mount.map(|mount| mount.fs_type.as_bytes());
        is_there && self.fs_types.as_ref().is_none_or(|types| types.selects(fs_type))
    }

    /// Returns sentences about words of the filter that name nothing in the recording.
    pub(super) fn unknown(&self) -> Vec<String> {
        let Some(table) = &self.table else {
            let has_none = !self.is_empty();
            let text = "the mounts of the recording are not known, so --mount and --fs-type select nothing";
            return has_none.then(|| text.to_owned()).into_iter().collect();
        };
        let unknown = self.points.iter().filter(|point| table.at(point.as_bytes()).is_none());
        let mounts = table.mounts().iter();
        let points = mounts.map(|mount| String::from_utf8_lossy(&mount.point).into_owned());
        let sentence = |point: &String| {
            let above = table.of_path(point.as_bytes()).map(|mount| {
                let above = String::from_utf8_lossy(&mount.point).into_owned();
                format!("; it is on {above} ({})", mount.fs_type)
            });
            let above = above.unwrap_or_default();
            let names: Vec<String> = points.clone().collect();
            let near = nearest(std::slice::from_ref(point), &names).unwrap_or_default();
            format!("{point} is no mount point of the recording{above}; the nearest: {near}")
        };
        unknown.map(sentence).collect()
    }

    /// Returns the patterns of types as given, and the types of the recording.
    pub(super) fn fs_types(&self) -> (Vec<String>, Vec<String>) {
        let words = self.fs_types.as_ref().map_or(Vec::new(), |types| types.words().to_vec());
        let mounts = self.table.iter().flat_map(MountTable::mounts);
        let mut types: Vec<String> = mounts.map(|mount| mount.fs_type.clone()).collect();
        types.sort();
        types.dedup();
        (words, types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"22 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
        23 22 0:20 / /proc rw - proc proc rw\n\
        24 22 8:1 / /data rw - xfs /dev/sda1 rw\n\
        25 24 8:2 / /data/in rw - ext4 /dev/sda2 rw\n";

    fn filter(points: &[&str], types: &[&str]) -> MountFilter {
        let owned =
            |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        let mut filter = MountFilter::new(&owned(points), &owned(types)).expect("good");
        filter.learn(&MountTable::parse(TEXT));
        filter
    }

    #[track_caller]
    fn check(filter: &MountFilter, wanted: &[&str], others: &[&str]) {
        let selects = |path: &str| {
            let (namespace, dev) = (MountNamespace::OWN, None);
            filter.selects([FilePlace { path: path.as_bytes(), namespace, dev }])
        };
        wanted.iter().for_each(|path| assert!(selects(path), "{path}"));
        others.iter().for_each(|path| assert!(!selects(path), "{path}"));
    }

    #[test]
    fn mount_has_its_own_files_only() {
        check(&filter(&["/data/"], &[]), &["/data", "/data/a"], &["/data/in/a", "/a", "pipe:[7]"]);
        check(&filter(&["/"], &[]), &["/etc/a"], &["/data/a", "/proc/1"]);
        check(&filter(&["/data", "/proc"], &["!xfs"]), &["/proc/1"], &["/data/a", "/a"]);
    }

    #[test]
    fn types_are_wanted_or_excluded() {
        check(&filter(&[], &["ext4", "xfs"]), &["/a", "/data/in/a"], &["/proc/1", "pipe:[7]"]);
        check(&filter(&[], &["!proc"]), &["/a", "pipe:[7]"], &["/proc/1"]);
        assert!(filter(&[], &["!proc"]).selects([]) && !filter(&[], &["ext4"]).selects([]));
    }

    #[test]
    fn unknown_words_are_named() {
        let sentences = filter(&["/data/x", "/proc"], &[]).unknown();
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].starts_with("/data/x is no mount point"), "{sentences:?}");
        assert!(sentences[0].contains("it is on /data (xfs); the nearest: "), "{sentences:?}");
        let (words, types) = filter(&[], &["ex4"]).fs_types();
        assert_eq!(
            (words, types),
            (vec!["ex4".into()], vec!["ext4".into(), "proc".into(), "xfs".into()])
        );
        let points = ["/data".to_owned()];
        assert_eq!(MountFilter::new(&points, &[]).expect("good").unknown().len(), 1);
        assert!(MountFilter::default().unknown().is_empty());
    }
}
