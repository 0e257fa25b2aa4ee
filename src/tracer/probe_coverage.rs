//! Coverage of probes: the calls whose paths they show.

/// Function that gives a descriptor its file. Number and `struct file` are its arguments.
pub(super) const FILE_FUNCTION: &str = "fd_install";

/// Coverage of probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeCoverage {
    /// Probed functions that return paths.
    pub functions: Vec<&'static str>,
    /// Calls whose paths the probes have shown, complete and with the right address.
    pub shown: Vec<&'static str>,
    /// Calls whose paths the probes have not shown.
    pub hidden: Vec<&'static str>,
    /// Number of files of programs that have no probes: their code is not understood, or was not
    /// searched.
    pub blank: usize,
    /// True if probes show the file of a new descriptor: without it, positions are unknown.
    pub files: bool,
}

impl ProbeCoverage {
    /// True if all paths of the test calls are shown.
    pub fn paths(&self) -> bool {
        self.hidden.is_empty() && !self.shown.is_empty()
    }

    /// True if all paths and the files of new descriptors are shown.
    pub fn everything(&self) -> bool {
        self.paths() && self.files
    }

    /// Returns the coverage as text.
    pub fn text(&self) -> String {
        let paths = match (self.shown.as_slice(), self.hidden.as_slice()) {
            ([], _) => "no paths".to_owned(),
            (_, []) => "the paths of all calls".to_owned(),
            (shown, _) => format!("the paths of {} only", shown.join(", ")),
        };
        let files = if self.files {
            format!("files of descriptors by {FILE_FUNCTION}")
        } else {
            "no files of descriptors, so offsets are not known".to_owned()
        };
        format!("{paths} by {}, {files}", self.functions.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covered_calls_are_reported() {
        let mut covers = ProbeCoverage {
            functions: vec!["do_getname"],
            shown: vec!["open", "rename"],
            hidden: Vec::new(),
            blank: 0,
            files: true,
        };
        assert!(covers.everything());
        let expected = "the paths of all calls by do_getname, files of descriptors by fd_install";
        assert_eq!(covers.text(), expected);
        covers = ProbeCoverage { hidden: vec!["link"], files: false, ..covers };
        assert!(!covers.everything());
        let expected = "the paths of open, rename only by do_getname, no files of descriptors, so offsets are not known";
        assert_eq!(covers.text(), expected);
        assert!(!ProbeCoverage::default().everything());
    }
}
