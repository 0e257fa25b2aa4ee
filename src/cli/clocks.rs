//! `iotrace-perf clocks -o DIR`: compares the clocks of the nodes of a job, before and after it.
//! Each process is started by the job's launcher. Rank 0 is the reference.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;

use super::clock_rendezvous::{self, Rendezvous};
use super::clocks_args::{ClocksArgs, ReferenceAddress};
use super::error::CliError;
use super::exit_code::INCOMPLETE;
use super::message::{print_error, print_line};
use crate::capture::clock_exchange::{
    ClockFile, ClockedHost, Exchange, FORMAT, KEPT, VERSION, WallReading, shortest,
};
use crate::capture::header::JobPlace;
use crate::sys::clock_client::ClockConnection;
use crate::sys::clock_service::{ClockService, ServedHosts};
use crate::sys::clock_wire::ClockSecret;
use crate::sys::output_dir::{OutputDirectory, Users};
use crate::sys::{clock, net_addresses, proc, random, regular, thread};
use crate::text::quantity::{count, counted, time};
use crate::tracer::error::TracerError;
use crate::tracer::job;
use crate::units::KernelTime;

/// Characters of a boot's identifier in the name of a file.
const BOOT_CHARS: usize = 8;

pub(super) fn run(args: &ClocksArgs) -> Result<ExitCode, CliError> {
    let place = job::own_place().unwrap_or_default();
    let (Some(rank), Some(size)) = (place.rank, place.size) else { return Err(no_launcher()) };
    if clock::is_offset_unknown() {
        return Err(TracerError::TimeNamespace.into());
    }
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
        let given = self.args.address.as_ref();
        let not_listening = |error: io::Error| not_listening(given, &error);
        let name = clock_rendezvous::name(job::own_job_number());
        clock_rendezvous::check_unused(&self.args.output, &name).map_err(CliError::Usage)?;
        let sockets = sockets(given).map_err(not_listening)?;
        let service = ClockService::listen(&sockets, secret.clone()).map_err(not_listening)?;
        let port = service.port().map_err(not_listening)?;
        let rendezvous = Rendezvous {
            addresses: addresses(given, &file.host.hostname, port),
            run: file.run.clone(),
            reference: file.host.clone(),
            secret,
        };
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
        if others == 0 {
            print_line(&format!(
                "nothing to compare: one process was started, on {name}; start one on each node"
            ));
            return ExitCode::SUCCESS;
        }
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
        let missing = others.saturating_sub(served.ended.saturating_add(served.failed));
        if missing > 0 {
            print_error(&format!(
                "error: {} of {} other processes did not end the comparison within {} s: each \
                 node must see the directory {}, and reach a TCP port of {name} (--address, \
                 --timeout)",
                count(missing),
                count(others),
                self.args.timeout.as_secs(),
                self.args.output.display()
            ));
        }
        if served.failed > 0 {
            print_error(&format!(
                "error: {} of {} other processes failed to compare their clocks: each has printed \
                 its reason",
                count(served.failed),
                count(others)
            ));
        }
        ExitCode::from(INCOMPLETE)
    }

    /// Compares this host with rank 0, unless another process of the host does.
    fn compare(&self, rank: u64, place: &JobPlace) -> Result<ExitCode, CliError> {
        let failed = |reason: String| {
            CliError::Usage(format!("the clock of rank {rank} was not compared: {reason}"))
        };
        let mut file = new_file(proc::clocked_host());
        let is_second = place.local_rank.is_some_and(|local| local > 0);
        let met = self.exchange(&file.host, is_second).map_err(failed)?;
        let MetReference { rendezvous, connection, exchanges } = met;
        let mut bound_ns = 0;
        if !exchanges.is_empty() {
            file.wall.push(wall_reading());
            file.run = rendezvous.run;
            file.reference = rendezvous.reference.clone();
            file.exchanges = exchanges.len() as u64;
            file.shortest = shortest(exchanges, KEPT);
            bound_ns = file.reading().map_or(u64::MAX, |reading| reading.bound_ns);
            // Another process of the host may have been the first.
            if let Err(error) = self.write(&file)
                && !self.is_written(&file)
            {
                connection.fail();
                return Err(error);
            }
        }
        let reference = &rendezvous.reference.hostname;
        connection.end(bound_ns).map_err(|error| failed(broken(reference, &error)))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Exchanges messages with rank 0, none as a second process of a host. A connection that breaks
    /// is made anew until the deadline.
    fn exchange(&self, host: &ClockedHost, is_second: bool) -> Result<MetReference, String> {
        let name = clock_rendezvous::name(job::own_job_number());
        loop {
            let met = clock_rendezvous::meet(&self.args.output, &name, self.deadline);
            let (rendezvous, mut connection) = met?;
            if is_second || *host == rendezvous.reference {
                return Ok(MetReference { rendezvous, connection, exchanges: Vec::new() });
            }
            match connection.exchanges() {
                Ok(exchanges) => return Ok(MetReference { rendezvous, connection, exchanges }),
                Err(error) => {
                    let is_over = clock::now() >= self.deadline;
                    if is_over || error.kind() == io::ErrorKind::InvalidData {
                        connection.fail();
                        return Err(broken(&rendezvous.reference.hostname, &error));
                    }
                    thread::pause(clock_rendezvous::PAUSE);
                }
            }
        }
    }

    /// True if a file of the same host and comparison is there.
    fn is_written(&self, file: &ClockFile) -> bool {
        let path = self.args.output.join(file_name(file));
        let mut bytes = Vec::new();
        let opened = regular::open_regular(&path, false);
        let is_read = opened.is_some_and(|(mut found, _)| found.read_to_end(&mut bytes).is_ok());
        let found = ClockFile::parse(&bytes);
        is_read && found.is_ok_and(|found| found.host == file.host && found.run == file.run)
    }

    /// Writes a file; it has its name when it is complete.
    fn write(&self, file: &ClockFile) -> Result<(), CliError> {
        let name = file_name(file);
        let path = self.args.output.join(&name);
        // Several processes of a host may write at a time.
        let part = format!("{name}.{}.part", new_run().map_err(CliError::Output)?);
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

/// Rank 0 that a process has met, and the exchanges with it.
struct MetReference {
    rendezvous: Rendezvous,
    connection: ClockConnection,
    /// Empty if another process of the host compares.
    exchanges: Vec<Exchange>,
}

fn broken(reference: &str, error: &io::Error) -> String {
    format!("the connection to rank 0 on {reference} broke: {error}")
}

/// Returns the error of a rank 0 that cannot listen.
fn not_listening(given: Option<&ReferenceAddress>, error: &io::Error) -> CliError {
    let port = given.map_or(0, |address| address.port);
    let host = given.map_or(String::new(), |address| format!(" of {}", address.host));
    CliError::Usage(format!(
        "cannot listen at TCP port {port}{host}: {error}; choose another one with --address"
    ))
}

/// Returns the addresses of this host at which rank 0 may listen, the best one first: all, or the
/// one that was given.
fn sockets(given: Option<&ReferenceAddress>) -> io::Result<Vec<SocketAddr>> {
    let Some(given) = given else {
        // A host without IPv6 refuses the first one.
        return Ok(vec![(Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::UNSPECIFIED, 0).into()]);
    };
    let found = (given.host.as_str(), given.port).to_socket_addrs()?;
    // Some systems give their own name such an address.
    let is_reached = |address: &SocketAddr| {
        let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        !address.ip().is_loopback() || own.contains(&address.ip())
    };
    let sockets: Vec<SocketAddr> = found.filter(is_reached).collect();
    if sockets.is_empty() {
        let text = "the name is of an address here that no other host reaches";
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
    }
    Ok(sockets)
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

/// Returns the name of a file: that of its host, the begin of its boot's identifier, since hosts
/// may have the same name, and the comparison.
fn file_name(file: &ClockFile) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || "-_.".contains(letter) => letter,
        _ => '_',
    };
    let host: String = file.host.hostname.chars().map(plain).collect();
    let host = host.trim_start_matches('.');
    let boot: String = file.host.boot_id.chars().map(plain).take(BOOT_CHARS).collect();
    format!("{host}-{boot}-{}.json", file.run)
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
            let boot_id = "0a/b.c-d-e-f".into();
            let hostname = hostname.into();
            let host = ClockedHost { hostname, boot_id, ..ClockedHost::default() };
            file_name(&ClockFile { host, run: "1f".into(), ..ClockFile::default() })
        };
        assert_eq!(named("node1.cluster"), "node1.cluster-0a_b.c-d-1f.json");
        assert_eq!(named("../etc/x y"), "_etc_x_y-0a_b.c-d-1f.json");
    }

    /// Fails if rank 0 listens at other addresses than the one that was given, or at one that only
    /// this host reaches under its name.
    #[test]
    fn rank_0_listens_at_the_given_address() {
        let given = |host: &str| ReferenceAddress { host: host.into(), port: 5 };
        let shown = |host: &str| {
            let found = sockets(Some(&given(host))).map_err(|error| error.kind());
            found.map(|found| found.iter().map(SocketAddr::to_string).collect::<Vec<_>>())
        };
        assert_eq!(shown("10.7.0.1"), Ok(vec!["10.7.0.1:5".to_owned()]));
        assert_eq!(shown("::1"), Ok(vec!["[::1]:5".to_owned()]));
        assert_eq!(shown("127.0.1.1"), Err(io::ErrorKind::AddrNotAvailable));
        let all = sockets(None).expect("no name");
        assert!(all.iter().all(|address| address.ip().is_unspecified()), "{all:?}");
    }

    #[test]
    fn given_address_is_the_only_one() {
        let given = ReferenceAddress { host: "fe80::1".into(), port: 5 };
        assert_eq!(addresses(Some(&given), "node1", 5), ["[fe80::1]:5"]);
        assert_eq!(addresses(None, "node1", 7).last().map(String::as_str), Some("node1:7"));
    }
}
