//! `iotrace-perf convert --capsule LOG -o NAME.iocap`: a log with pseudonyms for its names.

use std::io::{self, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use super::capsule_lines;
use super::convert_args::ConvertArgs;
use super::error::CliError;
use super::message::print_line;
use super::output::substitute;
use super::report_output;
use crate::capsule::{self, CapsuleError};
use crate::sys::output_dir::NewFile;
use crate::sys::{random, regular};

/// Least length of a salt that is given.
const SALT_BYTES_MIN: usize = 16;

pub(super) fn run(args: &ConvertArgs) -> Result<ExitCode, CliError> {
    let log = &args.log;
    let Some(output) = &args.output else {
        return Err(CliError::Usage(
            "--capsule writes a log: give its name with -o NAME.iocap".into(),
        ));
    };
    let output = substitute(output)?;
    let output = Path::new(&output);
    if output.extension().is_none_or(|ending| ending != "iocap") {
        return Err(CliError::Usage(format!(
            "-o {}: a capsule is a log; name it {}",
            output.display(),
            output.with_extension("iocap").display()
        )));
    }
    let salt = match &args.salt {
        Some(salt) if salt.as_bytes().len() < SALT_BYTES_MIN => {
            return Err(CliError::Usage(format!(
                "--salt: a text of {} bytes can be guessed, and reveals all names then; give at least {SALT_BYTES_MIN}, such as the output of openssl rand -hex 16",
                salt.as_bytes().len()
            )));
        }
        Some(salt) => salt.as_bytes().to_vec(),
        None => random::bytes().map_err(CliError::Output)?.to_vec(),
    };
    let mut made: NewFile = report_output::new_file(output, "-o")?;
    let out = made.file().try_clone().map_err(CliError::Output)?;
    let open = || regular::open_named(log).map(BufReader::new);
    let counts = capsule::write(open, &salt, out).map_err(|error| failed(log, error))?;
    made.keep();
    print_line(&format!("wrote {}: names are pseudonyms", output.display()));
    print_line(&capsule_lines::left_out(&counts));
    Ok(ExitCode::SUCCESS)
}

fn failed(log: &Path, error: CapsuleError) -> CliError {
    match error {
        CapsuleError::Io(source) if source.kind() == io::ErrorKind::StorageFull => {
            CliError::Output(source)
        }
        error => CliError::Log { path: log.into(), message: error.to_string() },
    }
}
