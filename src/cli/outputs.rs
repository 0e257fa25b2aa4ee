//! Outputs of a recording: its log and archive, and further files that are made from the log.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::converted::LogPaths;
use super::error::CliError;
use super::file_staging::StagedFile;
use super::filter_args::FilterSpec;
use super::log_pass::fold_log;
use super::output::{OpenOutput, Output, substitute};
use super::recording::Recorded;
use super::{convert, convert_perfetto, report};
use crate::sys::output_dir::Users;

/// Outputs as they were named.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outputs {
    /// Log, and the archive beside it; `None`: a directory whose name is the time.
    pub(super) main: Option<Output>,
    /// Further files.
    pub(super) further: Vec<FurtherOutput>,
}

/// A further file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FurtherOutput {
    /// An archive that is not beside the log.
    Archive(Output),
    /// A page for a browser.
    Page(PathBuf),
    /// A Perfetto trace.
    Perfetto(PathBuf),
}

/// A further file that is being made.
pub(super) enum OpenFurther {
    Archive(OpenOutput),
    Page(PathBuf, StagedFile),
    Perfetto(PathBuf, StagedFile),
}

impl Outputs {
    /// Parses the names of outputs, and fills in their placeholders.
    pub(super) fn parse(texts: &[OsString]) -> Result<Self, CliError> {
        let texts = texts.iter().map(|text| substitute(text)).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = Self::default();
        for (place, text) in texts.iter().enumerate() {
            let path = Path::new(text);
            if texts.iter().take(place).any(|earlier| earlier == text) {
                let text = format!("-o {} is given twice: leave out one", path.display());
                return Err(CliError::Usage(text));
            }
            match suffix(text) {
                Some("html") => outputs.further.push(FurtherOutput::Page(path.into())),
                Some("pftrace") => outputs.further.push(FurtherOutput::Perfetto(path.into())),
                _ => outputs.add(Output::parse(text)?)?,
            }
        }
        outputs.refuse_shared_directory()?;
        if let (None, Some(first)) = (&outputs.main, outputs.further.first()) {
            let log = Output::beside(first.path())?;
            outputs.main = Some(Output { has_archive: false, ..log });
        }
        Ok(outputs)
    }

    /// True if the user has named an archive, not only a place that holds one by default.
    pub(super) fn names_archive(&self) -> bool {
        let is_named = |output: &Output| output.has_archive && !output.own_directory;
        self.main.as_ref().is_some_and(is_named)
            || self.further.iter().any(|further| matches!(further, FurtherOutput::Archive(_)))
    }

    /// Refuses an archive whose directory is the directory of another output.
    fn refuse_shared_directory(&self) -> Result<(), CliError> {
        let further = self.further.iter().filter_map(FurtherOutput::archive);
        let mut archives = further.filter(|output| !output.own_directory);
        let Some(main) = self.main.as_ref().filter(|main| main.own_directory) else {
            return Ok(());
        };
        let taken = |output: &&Output| {
            let [.., directory] = output.archive_parts();
            let own = [&directory, &main.directory].map(|path| Path::new(".").join(path));
            own[0].components().eq(own[1].components())
        };
        let Some(output) = archives.find(taken) else { return Ok(()) };
        let shown = output.archive();
        let shown = shown.strip_prefix(".").unwrap_or(&shown).display();
        let directory = main.directory.display().to_string();
        let directory = directory.trim_end_matches('/');
        Err(CliError::Usage(format!(
            "-o {shown}: its events are in the directory {directory}/ beside it, which is the output -o {directory}/; {0}; or choose another name: -o {directory}/ -o {directory}-archive.otf2",
            match main.has_archive {
                true => format!(
                    "that one has an archive already, {directory}/{}.otf2: leave out -o {shown}",
                    main.name
                ),
                false => format!("leave out -o {shown}"),
            }
        )))
    }

    /// Adds a log, an archive, or both.
    fn add(&mut self, output: Output) -> Result<(), CliError> {
        let Some(main) = &mut self.main else {
            self.main = Some(output);
            return Ok(());
        };
        let is_beside = main.log() == output.log();
        // NAME.otf2 needs a log, too, which may have a place of its own.
        let names_log = |output: &Output| output.own_directory || !output.has_archive;
        match (names_log(main), names_log(&output)) {
            _ if is_beside => main.has_archive |= output.has_archive,
            (true, true) => {
                let text = format!(
                    "-o: a recording has one log, not {} and {}; leave out one",
                    main.log().display(),
                    output.log().display()
                );
                return Err(CliError::Usage(text));
            }
            (false, true) => {
                let archive = std::mem::replace(main, output);
                self.further.push(FurtherOutput::Archive(archive));
            }
            (_, false) => self.further.push(FurtherOutput::Archive(output)),
        }
        Ok(())
    }
}

impl FurtherOutput {
    fn archive(&self) -> Option<&Output> {
        match self {
            Self::Archive(output) => Some(output),
            Self::Page(_) | Self::Perfetto(_) => None,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Archive(output) => &output.directory,
            Self::Page(path) | Self::Perfetto(path) => path,
        }
    }
}

impl OpenFurther {
    /// Begins further files; none of them may exist, unless they are replaced.
    pub(super) fn open_all(
        all: Vec<FurtherOutput>,
        users: &Users,
        replaces: bool,
    ) -> Result<Vec<Self>, CliError> {
        let open = |output: FurtherOutput| {
            Ok(match output {
                FurtherOutput::Archive(output) => Self::Archive(output.open(users, replaces)?),
                FurtherOutput::Page(path) => {
                    let staged = StagedFile::create(&path, users, replaces)?;
                    Self::Page(path, staged)
                }
                FurtherOutput::Perfetto(path) => {
                    let staged = StagedFile::create(&path, users, replaces)?;
                    Self::Perfetto(path, staged)
                }
            })
        };
        all.into_iter().map(open).collect()
    }

    /// Makes the file from the log. Returns the line about it, unless it could not be made.
    pub(super) fn make(self, log: LogPaths<'_>, recorded: &mut Recorded) -> Option<String> {
        let shown = match &self {
            Self::Archive(open) => open.output.archive(),
            Self::Page(path, _) | Self::Perfetto(path, _) => path.clone(),
        };
        let shown = shown.display().to_string();
        let if_interrupted = format!("{shown} was not made; the log is complete");
        let make = |_: &Path, go_on: &mut dyn FnMut() -> bool| match self {
            Self::Archive(open) => {
                convert::convert(log, Some(&open), go_on)?;
                Ok(format!("vampir {shown}"))
            }
            Self::Page(_, staged) => {
                let (fold, converted) =
                    fold_log(log.path, report::overview, FilterSpec::of_all(), go_on)?;
                let page = report::page_of(&fold, &converted, log.shown);
                staged.file().write_all(page.as_bytes()).map_err(CliError::output)?;
                staged.finish()?;
                Ok(format!("xdg-open {shown}"))
            }
            Self::Perfetto(path, staged) => {
                convert_perfetto::convert(log.path, &path, staged, go_on)?;
                Ok("https://ui.perfetto.dev".to_owned())
            }
        };
        let how = recorded.work(make, &if_interrupted)?;
        Some(format!("wrote {shown}; open it: {how}"))
    }
}

/// Returns the suffix of the name of a file; directories have none.
fn suffix(text: &OsStr) -> Option<&str> {
    let path = Path::new(text);
    let is_directory = text.as_bytes().ends_with(b"/") || path.is_dir();
    path.extension().filter(|_| !is_directory)?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<Outputs, String> {
        let texts: Vec<OsString> = texts.iter().map(OsString::from).collect();
        Outputs::parse(&texts).map_err(|error| error.to_string())
    }

    /// Checks the log, whether an archive is beside it, and the further files.
    #[track_caller]
    fn check(texts: &[&str], log: &str, has_archive: bool, further: &[&str]) {
        let outputs = parse(texts).expect("valid");
        let main = outputs.main.expect("a log");
        assert_eq!((main.log(), main.has_archive), (log.into(), has_archive));
        let shown = outputs.further.iter().map(|output| match output {
            FurtherOutput::Archive(output) => output.archive().display().to_string(),
            other => other.path().display().to_string(),
        });
        assert_eq!(shown.collect::<Vec<_>>(), further);
    }

    #[test]
    fn one_log_has_all_outputs() {
        assert_eq!(parse(&[]), Ok(Outputs::default()));
        check(&["a.otf2"], "./a.iocap", true, &[]);
        check(&["a.iocap", "a.otf2"], "./a.iocap", true, &[]);
        check(&["a.otf2", "a.iocap"], "./a.iocap", true, &[]);
        check(&["b.otf2", "a.iocap"], "./a.iocap", false, &["./b.otf2"]);
        check(&["r/", "x/b.otf2"], "r/traces.iocap", true, &["x/b.otf2"]);
        check(&["a.otf2", "b.otf2"], "./a.iocap", true, &["./b.otf2"]);
        check(&["x.html"], "./x.iocap", false, &["x.html"]);
        let all = ["x.html", "x.iocap", "x.otf2", "y.pftrace"];
        check(&all, "./x.iocap", true, &["x.html", "y.pftrace"]);
    }

    #[test]
    fn second_log_and_second_name_are_refused() {
        let logs = parse(&["a.iocap", "b.iocap"]).expect_err("two logs");
        assert_eq!(logs, "-o: a recording has one log, not ./a.iocap and ./b.iocap; leave out one");
        assert!(parse(&["r/", "b.iocap"]).is_err() && parse(&["r/", "s/"]).is_err());
        let twice = parse(&["a.html", "a.html"]).expect_err("one name");
        assert_eq!(twice, "-o a.html is given twice: leave out one");
        assert!(parse(&["a.html", "b.json"]).is_err());
    }

    #[test]
    fn archive_whose_directory_is_another_output_is_refused() {
        for texts in [["x/", "x.otf2"], ["x.otf2", "x/"], ["./x/", "x.otf2"]] {
            let refused = parse(&texts).expect_err("one directory");
            assert!(refused.contains("-o x.otf2: its events are in the directory "), "{refused}");
            assert!(refused.contains("has an archive already"), "{refused}");
        }
        assert!(parse(&["x/", "y.otf2"]).is_ok() && parse(&["x/", "y/x.otf2"]).is_ok());
    }
}
