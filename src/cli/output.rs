//! Where the outputs go.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::CliError;

/// The files of one recording or conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    /// The directory that they are in.
    pub(super) directory: PathBuf,
    /// True if the directory is made for them.
    pub(super) own_directory: bool,
    /// Their name without an ending.
    pub(super) name: String,
}

impl Output {
    /// `NAME.otf2`, or `DIR/` for `DIR/traces.otf2`.
    pub(super) fn parse(text: &OsStr) -> Result<Self, CliError> {
        let path = Path::new(text);
        if text.as_bytes().ends_with(b"/") {
            return Ok(Self { directory: path.into(), own_directory: true, name: "traces".into() });
        }
        let usage = || {
            CliError::Usage(format!(
                "-o takes NAME.otf2 or a directory with a slash at its end, not {}; try: -o {}/",
                path.display(),
                path.display()
            ))
        };
        let name = path.file_stem().and_then(OsStr::to_str).ok_or_else(usage)?;
        if path.extension() != Some(OsStr::new("otf2")) {
            return Err(usage());
        }
        let directory =
            path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { directory: directory.into(), own_directory: false, name: name.into() })
    }

    /// Beside a log, with its name.
    pub(super) fn beside(log: &Path) -> Result<Self, CliError> {
        let name = log.file_stem().and_then(OsStr::to_str);
        let name = name.ok_or_else(|| {
            CliError::Usage("the log's name is not UTF-8: say where with -o".into())
        })?;
        let directory =
            log.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { directory: directory.into(), own_directory: false, name: name.into() })
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join(format!("{}.iocap", self.name))
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.directory.join(format!("{}.otf2", self.name))
    }

    /// What an archive consists of: anchor, definitions, directory.
    pub(super) fn archive_parts(&self) -> [PathBuf; 3] {
        let definitions = self.directory.join(format!("{}.def", self.name));
        [self.archive(), definitions, self.directory.join(&self.name)]
    }

    /// Where an archive is until it is whole.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.directory.join(format!("{}.otf2.part", self.name))
    }

    /// Refuses to write over anything of an archive.
    pub(super) fn refuse_existing(&self) -> Result<(), CliError> {
        let is_there = |it: &PathBuf| it.symlink_metadata().is_ok();
        match self.archive_parts().into_iter().find(is_there) {
            Some(path) => Err(CliError::Exists { path }),
            None => Ok(()),
        }
    }

    /// The same; makes the directory if it is ours to make.
    pub(super) fn prepare(&self) -> Result<(), CliError> {
        self.refuse_existing()?;
        let is_there = self.directory.is_dir();
        let trusted = || crate::sys::files::is_trustworthy(&self.directory).unwrap_or(false);
        if is_there && nix::unistd::geteuid().is_root() && !trusted() {
            return Err(CliError::Usage(format!(
                "everybody may put links into {}: root does not write there; use -o with \
                 another directory",
                self.directory.display()
            )));
        }
        if self.own_directory && !is_there {
            crate::sys::files::create_new_directory(&self.directory)
                .map_err(|source| CliError::Create { path: self.directory.clone(), source })?;
        }
        Ok(())
    }
}

/// Fills in `{DATE}` and the like.
pub(super) fn substitute(text: &OsStr) -> Result<OsString, CliError> {
    let Some(text) = text.to_str() else { return Ok(text.to_owned()) };
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, behind) = behind.split_once('}').ok_or_else(|| {
            CliError::Usage(format!("a brace is not closed in the output name {text}"))
        })?;
        filled.push_str(&value(name)?);
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled.into())
}

fn value(name: &str) -> Result<String, CliError> {
    let variable = |name: &str| std::env::var(name).ok();
    let host = || crate::sys::proc::host().hostname;
    let value = match name {
        "DATE" => Some(date()),
        "HOSTNAME" => Some(host()),
        "PID" => Some(std::process::id().to_string()),
        "RANK" => ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"]
            .iter()
            .find_map(|it| variable(it)),
        _ => match name.strip_prefix("ENV=") {
            Some(name) => variable(name),
            None => {
                return Err(CliError::Usage(format!(
                    "unknown {{{name}}} in the output name; there are {{DATE}} {{HOSTNAME}} {{PID}} {{RANK}} {{ENV=VAR}}"
                )));
            }
        },
    };
    // A name is one step of a path, whatever a variable holds.
    value
        .map(|it| it.replace('/', "_"))
        .ok_or_else(|| CliError::Usage(format!("{{{name}}} in the output name has no value here")))
}

/// Local date and time that sort, with no character that a shell minds.
fn date() -> String {
    let now = i128::from(crate::sys::clock::realtime_ns());
    let timestamp = jiff::Timestamp::from_nanosecond(now).unwrap_or_default();
    timestamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d_%H-%M-%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_directories() {
        let output = Output::parse(OsStr::new("trace.otf2")).expect("a name");
        assert_eq!(
            (output.log(), output.archive()),
            ("./trace.iocap".into(), "./trace.otf2".into())
        );
        let output = Output::parse(OsStr::new("/tmp/x/")).expect("a directory");
        assert_eq!(output.archive(), Path::new("/tmp/x/traces.otf2"));
        assert!(Output::parse(OsStr::new("trace")).is_err());
    }

    #[test]
    fn braces_are_filled_in() {
        let pid = std::process::id();
        assert_eq!(
            substitute(OsStr::new("a{PID}b.otf2")).ok(),
            Some(format!("a{pid}b.otf2").into())
        );
        assert!(substitute(OsStr::new("{WHAT}")).is_err());
        assert!(substitute(OsStr::new("{PID")).is_err());
    }
}
