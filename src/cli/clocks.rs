//! `iotrace-perf clocks -o DIR`: compares the clocks of the nodes of a job, before and after it.
//! Each process is started by the job's launcher. Rank 0 is the reference.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::clock_rendezvous::{self, Rendezvous};
use super::clocks_args::{ClocksArgs, ReferenceAddress};
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::message::{print_error, print_line};
use crate::capture::clock_exchange::{
    ClockFile, ClockedHost, FORMAT, VERSION, WallReading, shortest,
};
use crate::capture::header::JobPlace;
use crate::sys::clock_service::{ClockService, ServedHosts};
use crate::sys::clock_wire::ClockSecret;
use crate::sys::output_dir::{OutputDirectory, Users};
use crate::sys::{clock, net_addresses, proc, random};
use crate::text::quantity::{count, counted, time};
use crate::tracer::job;
use crate::units::KernelTime;

/// Number of exchanges that a file keeps.
const KEPT: usize = 16;

pub(super) fn run(args: &ClocksArgs) -> Result<ExitCode, CliError> {
    let place = job::own_place().unwrap_or_default();
    let (Some(rank), Some(size)) = (place.rank, place.size) else { return Err(no_launcher()) };
    let timeout_ns = u64::try_from(args.timeout.as_nanos()).unwrap_or(u64::MAX);
    let deadline = KernelTime(clock::now().0.saturating_add(timeout_ns));
    let directory = open(&args.output)?;
    let comparison = ClockComparison { args, directory: &directory, deadline };
    match rank {
        0 => comparison.serve(size.saturating_sub(1)),
        rank => comparison.compare(rank, &place),
    }
}

/// Returns the error of a process without a launcher.
fn no_launcher() -> CliError {
    CliError::Usage(
        "no launcher of a parallel job has started this process, or it gives no number of \
         processes; start one process on each node, as srun --ntasks-per-node=1 iotrace-perf \
         clocks -o clocks/, or mpirun --map-by ppr:1:node iotrace-perf clocks -o clocks/"
            .into(),
    )
}

/// Opens the directory of the results. Each process of the job may be the one that creates it.
fn open(path: &Path) -> Result<OutputDirectory, CliError> {
    let failed = |source| CliError::Create { path: path.into(), source };
    let users = Users::caller();
    match OutputDirectory::open(path, &users) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map_err(failed),
    }
    match OutputDirectory::make(path, &users) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OutputDirectory::open(path, &users).map_err(failed)
        }
        made => made.map_err(failed),
    }
}

/// One process's part of a comparison.
struct ClockComparison<'a> {
    args: &'a ClocksArgs,
    directory: &'a OutputDirectory,
    deadline: KernelTime,
}

impl ClockComparison<'_> {
    /// Answers the other processes.
    fn serve(&self, others: u64) -> Result<ExitCode, CliError> {
        let failed = |source| CliError::Create { path: self.args.output.clone(), source };
        let mut file = new_file(proc::clocked_host());
        file.run = new_run().map_err(CliError::Output)?;
        file.reference = file.host.clone();
        let secret = ClockSecret::new().map_err(CliError::Output)?;
        let port = self.args.address.as_ref().map_or(0, |address| address.port);
        let not_listening = |error: io::Error| {
            CliError::Usage(format!(
                "cannot listen at TCP port {port}: {error}; choose another one"
            ))
        };
        let service = ClockService::listen(port, secret.clone()).map_err(not_listening)?;
        let port = service.port().map_err(not_listening)?;
        let rendezvous = Rendezvous {
            addresses: addresses(self.args.address.as_ref(), &file.host.hostname, port),
            run: file.run.clone(),
            reference: file.host.clone(),
            secret,
        };
        let name = clock_rendezvous::name(job::own_job_number());
        let published = rendezvous.publish(self.directory, &name).map_err(failed)?;
        let served = service.serve(others, self.deadline).map_err(CliError::Output)?;
        drop(published);
        file.wall.push(wall_reading());
        self.write(&file)?;
        Ok(self.report(&file, others, served))
    }

    /// Prints the result of all, at rank 0.
    fn report(&self, file: &ClockFile, others: u64, served: ServedHosts) -> ExitCode {
        let name = &file.host.hostname;
        print_line(&format!(
            "{} compared with the clock of {name}: ± {} or better; for the archive: iotrace-perf \
             merge … --clocks {}",
            counted(served.ended, "other process"),
            time(served.bound_ns),
            self.args.output.display()
        ));
        if served.ended >= others {
            return ExitCode::SUCCESS;
        }
        print_error(&format!(
            "error: {} of {} other processes did not end the comparison within {} s: each node \
             must see the directory {}, and reach a TCP port of {name} (--address, --timeout)",
            count(others - served.ended),
            count(others),
            self.args.timeout.as_secs(),
            self.args.output.display()
        ));
        ExitCode::from(INCOMPLETE)
    }

    /// Compares this host with rank 0, unless another process of the host does.
    fn compare(&self, rank: u64, place: &JobPlace) -> Result<ExitCode, CliError> {
        let name = clock_rendezvous::name(job::own_job_number());
        let met = clock_rendezvous::meet(&self.args.output, &name, self.deadline);
        let failed = |reason: &str| {
            CliError::Usage(format!("the clock of rank {rank} was not compared: {reason}"))
        };
        let (rendezvous, mut connection) = met.map_err(|reason| failed(&reason))?;
        let lost = |error: io::Error| {
            let address = &rendezvous.reference.hostname;
            failed(&format!("the connection to rank 0 on {address} broke: {error}"))
        };
        let mut file = new_file(proc::clocked_host());
        if file.host == rendezvous.reference || place.local_rank.is_some_and(|local| local > 0) {
            connection.end(0).map_err(lost)?;
            return Ok(ExitCode::SUCCESS);
        }
        let exchanges = connection.exchanges().map_err(lost)?;
        file.wall.push(wall_reading());
        file.run = rendezvous.run.clone();
        file.reference = rendezvous.reference.clone();
        file.exchanges = exchanges.len() as u64;
        file.shortest = shortest(exchanges, KEPT);
        self.write(&file)?;
        connection
            .end(file.reading().map_or(u64::MAX, |reading| reading.bound_ns))
            .map_err(lost)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes a file; it has its name when it is complete.
    fn write(&self, file: &ClockFile) -> Result<(), CliError> {
        let name = file_name(file);
        let path = self.args.output.join(&name);
        let part = format!("{name}.part");
        let mut text = serde_json::to_vec_pretty(file).unwrap_or_default();
        text.push(b'\n');
        let written = self.directory.create(part.as_ref()).and_then(|mut new| {
            let written = new.write_all(&text).and_then(|()| {
                self.directory.rename_new(part.as_ref(), self.directory, name.as_ref())
            });
            if written.is_err() {
                self.directory.remove_file(part.as_ref(), &new);
            }
            written
        });
        written.map_err(|source| CliError::Create { path, source })
    }
}

/// Returns the file of this host before its comparison.
fn new_file(host: ClockedHost) -> ClockFile {
    ClockFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        clock: "CLOCK_MONOTONIC".to_owned(),
        host,
        wall: vec![wall_reading()],
        ..ClockFile::default()
    }
}

fn wall_reading() -> WallReading {
    let (time, realtime_ns) = clock::both();
    WallReading { time_ns: time.0, realtime_ns }
}

/// Returns an identifier that no other comparison has.
fn new_run() -> io::Result<String> {
    let bytes = random::bytes()?;
    Ok(bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the name of a file: that of its host, and the comparison.
fn file_name(file: &ClockFile) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || "-_.".contains(letter) => letter,
        _ => '_',
    };
    let host: String = file.host.hostname.chars().map(plain).collect();
    let host = host.trim_start_matches('.');
    format!("{host}-{}.json", file.run)
}

/// Returns the addresses at which the reference is tried.
fn addresses(given: Option<&ReferenceAddress>, hostname: &str, port: u16) -> Vec<String> {
    let with_port = |host: &str| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    if let Some(given) = given {
        return vec![with_port(&given.host)];
    }
    let own = net_addresses::own_addresses();
    let own = own.iter().map(|address| with_port(&address.to_string()));
    own.chain([with_port(hostname)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_stay_in_the_directory() {
        let named = |hostname: &str| {
            let host = ClockedHost { hostname: hostname.into(), ..ClockedHost::default() };
            file_name(&ClockFile { host, run: "1f".into(), ..ClockFile::default() })
        };
        assert_eq!(named("node1.cluster"), "node1.cluster-1f.json");
        assert_eq!(named("../etc/x y"), "_etc_x_y-1f.json");
    }

    #[test]
    fn given_address_is_the_only_one() {
        let given = ReferenceAddress { host: "fe80::1".into(), port: 5 };
        assert_eq!(addresses(Some(&given), "node1", 5), ["[fe80::1]:5"]);
        assert_eq!(addresses(None, "node1", 7).last().map(String::as_str), Some("node1:7"));
    }
}
