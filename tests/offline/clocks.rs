//! `clocks` and `merge --clocks`: clocks that messages compare, with errors that are injected into
//! the messages, the files and the logs, so that the truth is known.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::Duration;

use iotrace_perf::capture::clock_exchange::{
    ClockFile, ClockedHost, Exchange, FORMAT, OffsetReading, VERSION, WallReading,
};
use iotrace_perf::capture::format::FrameKind;
use iotrace_perf::capture::message_clock::MessageClock;
use iotrace_perf::units::KernelTime;
use serde_json::Value;

use crate::merge::{DD, MS, Made, S, bound, definitions, merge, property, spans, unpadded};
use crate::support::driver::process::{Finished, run, wait};
use crate::support::driver::recording::{BINARY, TIMEOUT, wait_until};
use crate::support::log_copy::copy_frames;
use crate::support::machine::requirements::{Need, require, require_all};
use crate::support::oracle::otf2_check;
use crate::support::{scratch_dir, text};

/// Returns `iotrace-perf clocks` as a rank of two, on a host of this name.
fn rank(host: &str, rank: u32, job: &Path, options: &[&str]) -> Command {
    let named = "echo \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", named, host, BINARY, "clocks"]).args(options);
    variables(&mut command, rank, job);
    command
}

/// Sets the variables of Open MPI.
fn variables(command: &mut Command, rank: u32, job: &Path) {
    command.env("OMPI_COMM_WORLD_RANK", rank.to_string()).env("OMPI_COMM_WORLD_SIZE", "2");
    command.env("PMIX_NAMESPACE", text(job));
}

/// Returns the rendezvous that rank 0 has left.
pub(crate) fn rendezvous(dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // While it is written it has one more part.
    let is_it = |path: &PathBuf| name(path).starts_with(".clocks-") && path.extension().is_none();
    entries.map(|entry| entry.path()).find(is_it)
}

/// Files of a directory, by host.
#[track_caller]
pub(crate) fn files(dir: &Path) -> Vec<ClockFile> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("one").path());
    let is_file = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let parsed = entries
        .filter(is_file)
        .map(|path| ClockFile::parse(&fs::read(&path).expect("a file")).expect("a comparison"));
    let mut files: Vec<ClockFile> = parsed.collect();
    files.sort_by(|one, other| one.host.cmp(&other.host));
    files
}

/// A network that is not the same in both directions, between two clocks that differ.
#[derive(Clone, Copy)]
struct Network {
    offset_ns: i64,
    drift_ppb: i64,
    delays: [Duration; 2],
}

impl Network {
    /// Returns what the reference's clock would show at a time of the host.
    fn truth(self, time: u64) -> i128 {
        let drift = i128::from(time) * i128::from(self.drift_ppb) / 1_000_000_000;
        i128::from(time) + i128::from(self.offset_ns) + drift
    }

    /// Takes the place of the reference in the rendezvous, and passes all messages of a host on.
    fn insert(self, rendezvous: &Path) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let own = listener.local_addr().expect("a port").to_string();
        let json = fs::read(rendezvous).expect("readable");
        let mut json: Value = serde_json::from_slice(&json).expect("JSON");
        let port = json["addresses"][0].as_str().expect("an address").rsplit_once(':');
        let port: u16 = port.expect("a port").1.parse().expect("a number");
        json["addresses"] = Value::from(vec![own]);
        fs::write(rendezvous, json.to_string()).expect("ours");
        spawn(move || self.pass_on(listener.accept().expect("a host").0, port));
    }

    fn pass_on(self, mut host: TcpStream, port: u16) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut reference = TcpStream::connect(address).expect("it listens");
        for stream in [&host, &reference] {
            stream.set_nodelay(true).expect("TCP");
        }
        let mut greeting = [0; 40];
        copy(&mut host, &mut reference, &mut greeting);
        copy(&mut reference, &mut host, &mut greeting);
        let mut begin = [0; 24];
        copy(&mut reference, &mut host, &mut begin);
        for number in 0_u32.. {
            let mut message = [0; 16];
            if host.read_exact(&mut message).is_err() {
                return;
            }
            // Some messages take longer.
            let [to, back] = self.delays.map(|delay| delay * (1 + number % 5));
            sleep(to);
            reference.write_all(&message).expect("connected");
            if message[..8] == [0xff; 8] {
                return;
            }
            let mut answer = [0; 24];
            reference.read_exact(&mut answer).expect("connected");
            for part in answer[8..].chunks_exact_mut(8) {
                let time = u64::from_le_bytes(part.try_into().expect("8 bytes"));
                let shown = u64::try_from(self.truth(time)).expect("after the boot");
                part.copy_from_slice(&shown.to_le_bytes());
            }
            sleep(back);
            host.write_all(&answer).expect("connected");
        }
    }
}

fn copy(from: &mut TcpStream, to: &mut TcpStream, bytes: &mut [u8]) {
    from.read_exact(bytes).expect("connected");
    to.write_all(bytes).expect("connected");
}

pub(crate) fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

pub(crate) fn ended(mut child: Child) -> (Option<i32>, String) {
    let status = wait(&mut child, TIMEOUT).expect("it ends");
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    (status.code(), said)
}

/// Fails if an offset or a drift between two processes is not within the stated bound: the messages
/// pass through a network that changes the clock of the reference in them.
#[test]
fn injected_offset_of_two_processes_is_within_the_bound() {
    if !require_all(&[Need::Root, Need::Program("unshare")]) {
        return;
    }
    let microseconds = Duration::from_micros;
    for (offset_ns, drift_ppb, delays) in [
        (50_000_000, 20_000, [microseconds(20), microseconds(300)]),
        (-50_000_000, -20_000, [microseconds(300), microseconds(1)]),
    ] {
        let path = Network { offset_ns, drift_ppb, delays };
        let scratch = scratch_dir("clocks");
        let dir = scratch.path().join("clocks");
        let options = ["-o", text(&dir), "--timeout", "60s", "--address", "127.0.0.1"];
        let reference = start(rank("node1", 0, scratch.path(), &options));
        wait_until("rank 0 has left its address", || rendezvous(&dir).is_some());
        path.insert(&rendezvous(&dir).expect("it is there"));
        let host = start(rank("node2", 1, scratch.path(), &options));
        for child in [reference, host] {
            let (status, said) = ended(child);
            assert_eq!(status, Some(0), "{said}");
        }
        assert_eq!(rendezvous(&dir), None);
        let [first, second] = files(&dir).try_into().expect("two hosts");
        assert!(first.is_reference() && !second.is_reference());
        assert_eq!((second.host.hostname.as_str(), second.shortest.len()), ("node2", 16));
        // A busy machine has fewer in the time.
        assert!((16..=256).contains(&second.exchanges), "{}", second.exchanges);
        assert_eq!(second.reference.hostname, "node1");
        let reading = second.reading().expect("a reading");
        check_offset(&path, reading);
        // After ten minutes: the file is moved, and with it both clocks.
        let later_ns = 600 * S;
        let moved = |time: &mut u64, shown: i128| {
            *time = u64::try_from(i128::from(*time) + shown).expect("a time");
        };
        let mut after = second.clone();
        for exchange in &mut after.shortest {
            let drift = i128::from(later_ns) * i128::from(drift_ppb) / 1_000_000_000;
            moved(&mut exchange.sent_ns, later_ns.into());
            moved(&mut exchange.returned_ns, later_ns.into());
            moved(&mut exchange.received_ns, i128::from(later_ns) + drift);
            moved(&mut exchange.answered_ns, i128::from(later_ns) + drift);
        }
        let last = after.reading().expect("a reading");
        let clock = MessageClock::of(&[reading, last]).expect("readings");
        for part in 0..=20 {
            let time = KernelTime(reading.time.0 + part * later_ns / 20);
            let offset_ns = clock.offset_ns(time);
            check_offset(&path, OffsetReading { time, offset_ns, bound_ns: clock.bound_ns(time) });
        }
        let drift = clock.drift_ppb().expect("a line");
        assert!(drift.abs_diff(drift_ppb) < 2_000, "{drift}");
    }
}

#[track_caller]
fn check_offset(path: &Network, reading: OffsetReading) {
    let truth = path.truth(reading.time.0) - i128::from(reading.time.0);
    let error = truth.abs_diff(reading.offset_ns);
    assert!(error <= u128::from(reading.bound_ns) + 1, "{error} ns: {reading:?}");
}

/// Fails if two processes of one host compare its clock with itself, or wait for each other.
#[test]
fn processes_of_one_host_have_one_clock() {
    let scratch = scratch_dir("clocks");
    let dir = scratch.path().join("clocks");
    let process = |number| {
        let mut command = Command::new(BINARY);
        command.args(["clocks", "-o", text(&dir), "--timeout", "60s"]);
        variables(&mut command, number, scratch.path());
        start(command)
    };
    let (second, first) = (process(1), process(0));
    for child in [first, second] {
        let (status, said) = ended(child);
        assert_eq!(status, Some(0), "{said}");
    }
    let files = files(&dir);
    assert!(files.len() == 1 && files[0].is_reference(), "{files:?}");
}

/// Fails if a process waits for ever, or its failure is not in its status and its message.
#[test]
fn missing_processes_are_reported_in_time() {
    let scratch = scratch_dir("clocks");
    let dir = scratch.path().join("clocks");
    let ends = |number: u32, options: &[&str]| -> Finished {
        let mut command = Command::new(BINARY);
        command.args(["clocks", "-o", text(&dir), "--timeout", "300ms"]).args(options);
        variables(&mut command, number, scratch.path());
        run(&mut command, TIMEOUT).expect("it ends")
    };
    let alone = ends(0, &[]);
    assert_eq!(alone.status.code(), Some(1), "{}", alone.stderr());
    assert!(alone.stderr().contains("1 of 1 other processes did not end"), "{}", alone.stderr());
    assert_eq!(rendezvous(&dir), None);
    let lost = ends(1, &[]);
    assert_eq!(lost.status.code(), Some(125), "{}", lost.stderr());
    assert!(lost.stderr().contains("rank 0 has left no file"), "{}", lost.stderr());
    let wrong = ends(0, &["--address", "node1:x"]);
    assert_eq!(wrong.status.code(), Some(125), "{}", wrong.stderr());

    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
    let port = taken.local_addr().expect("a port").port();
    let refused = ends(0, &["--address", &format!("127.0.0.1:{port}")]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(refused.stderr().contains("cannot listen at TCP port"), "{}", refused.stderr());

    let mut command = Command::new(BINARY);
    command.args(["clocks", "-o", text(&dir)]);
    let refused = run(&mut command, TIMEOUT).expect("it ends");
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr());
    assert!(refused.stderr().contains("no launcher of a parallel job"), "{}", refused.stderr());
}

/// Fails if a rendezvous that others can read or write, or a stale one, is trusted.
#[test]
fn rendezvous_of_others_is_not_trusted() {
    let scratch = scratch_dir("clocks");
    let dir = scratch.path().join("clocks");
    let mut first = Command::new(BINARY);
    first.args(["clocks", "-o", text(&dir), "--timeout", "60s"]);
    variables(&mut first, 0, scratch.path());
    let mut first = start(first);
    wait_until("rank 0 has left its address", || rendezvous(&dir).is_some());
    let path = rendezvous(&dir).expect("it is there");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(&path).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    // Its process is killed, and the file stays.
    first.kill().and_then(|()| first.wait()).expect("ours");
    let second = || {
        let mut command = Command::new(BINARY);
        command.args(["clocks", "-o", text(&dir), "--timeout", "300ms"]);
        variables(&mut command, 1, scratch.path());
        let finished = run(&mut command, TIMEOUT).expect("it ends");
        assert_eq!(finished.status.code(), Some(125), "{}", finished.stderr());
        finished.stderr()
    };
    let stale = second();
    assert!(stale.contains("is not reached"), "{stale}");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("ours");
    let open = second();
    assert!(open.contains("others may read it"), "{open}");
}

/// Clock of the reference less that of the other host.
#[derive(Clone, Copy)]
pub(crate) struct Injected {
    pub(crate) offset_ns: i64,
    pub(crate) drift_ppb: i64,
}

impl Injected {
    pub(crate) fn offset_at(self, time: u64) -> i128 {
        let drift = i128::from(time) * i128::from(self.drift_ppb) / 1_000_000_000;
        i128::from(self.offset_ns) + drift
    }

    /// Writes a comparison at a time, whose messages take 9 µs there and 1 µs back.
    fn write(self, dir: &Path, host: &ClockedHost, time: u64, realtime_ns: u64) {
        let shown = |time: u64| {
            u64::try_from(i128::from(time) + self.offset_at(time)).expect("after the boot")
        };
        let exchange = Exchange {
            sent_ns: time,
            received_ns: shown(time + 9_000),
            answered_ns: shown(time + 9_500),
            returned_ns: time + 10_500,
        };
        let reference = ClockedHost { hostname: "alpha".into(), ..host.clone() };
        let is_reference = *host == reference;
        let file = ClockFile {
            format: FORMAT.into(),
            version: VERSION,
            run: time.to_string(),
            host: host.clone(),
            reference,
            wall: vec![WallReading { time_ns: time, realtime_ns }],
            exchanges: u64::from(!is_reference),
            shortest: if is_reference { Vec::new() } else { vec![exchange] },
            ..ClockFile::default()
        };
        let path = dir.join(format!("{}-{time}.json", host.hostname));
        fs::write(path, serde_json::to_vec(&file).expect("JSON")).expect("space");
    }
}

/// Recordings of two hosts, with comparisons before and after.
pub(crate) struct ComparedJob {
    pub(crate) logs: Vec<PathBuf>,
    pub(crate) clocks: PathBuf,
    /// Start and end of both recordings, on their own clocks.
    pub(crate) span: [u64; 2],
}

/// Makes recordings of two hosts at equal times of their own clocks; the wall clock of the second
/// is ahead of what is true by `wall_ns`.
pub(crate) fn compared_job(dir: &Path, injected: Injected, wall_ns: i64) -> ComparedJob {
    let alpha = DD.write(dir, "alpha");
    let header = crate::merge::header_of(&alpha);
    let (start, wall) = (header.clock.start_ns, header.clock.start_realtime_ns);
    let offset_ns = i64::try_from(injected.offset_at(start)).expect("small");
    // At equal times of both clocks the reference's shows the offset more.
    let later_ns = offset_ns + wall_ns;
    let beta = Made { host: "beta", later_ns, ..DD }.write(dir, "beta");
    let host = |name: &str| ClockedHost {
        hostname: name.into(),
        kernel_release: header.host.kernel_release.clone(),
        kernel_version: header.host.kernel_version.clone(),
        machine: header.host.machine.clone(),
        boot_id: "1".into(),
    };
    let clocks = dir.join("clocks");
    fs::create_dir(&clocks).expect("space");
    for time in [start - 20 * S, start + 580 * S] {
        let reference = Injected { offset_ns: 0, drift_ppb: 0 };
        let wall = (wall + time) - start;
        reference.write(&clocks, &host("alpha"), time, wall);
        injected.write(&clocks, &host("beta"), time, wall.saturating_add_signed(later_ns));
    }
    ComparedJob { logs: vec![alpha, beta], clocks, span: [start, start + S] }
}

fn merged_with(job: &ComparedJob, archive: &Path, options: &[&str]) -> Finished {
    let logs: Vec<&Path> = job.logs.iter().map(PathBuf::as_path).collect();
    merge(&logs, archive, &[&["--clocks", text(&job.clocks)], options].concat())
}

/// Fails if events of two hosts are not where messages place them within the bound, or if a wall
/// clock that is 50 ms wrong is not found.
#[test]
fn wrong_wall_clocks_are_replaced_and_reported() {
    if !require(Need::Otf2Print) {
        return;
    }
    for (offset_ns, drift_ppb, wall_ns, shown) in [
        (50_000_000, 20_000, 50_000_000_i64, "50.0 ms ahead of"),
        (-50_000_000, -20_000, -50_000_000, "50.0 ms behind"),
        (7_000_000, 0, 0, ""),
    ] {
        let dir = scratch_dir("compared");
        let injected = Injected { offset_ns, drift_ppb };
        let job = compared_job(dir.path(), injected, wall_ns);
        let archive = dir.path().join("job.otf2");
        let said = merged_with(&job, &archive, &[]).success().stderr();
        let bound = bound(&archive);
        assert!((5_000..60_000).contains(&bound), "{bound}: {said}");
        let times: Vec<(u64, u64)> = spans(&archive).into_values().collect();
        let half = times.len() / 2;
        let found = i128::from(times[half].0) - i128::from(times[0].0);
        // Between the start and the end of the recordings the offset changes by less than 1 ns.
        let truth = injected.offset_at(job.span[0]);
        let error = found.abs_diff(truth);
        assert!(error <= u128::from(bound) + 50, "{error} ns, bound {bound} ns: {said}");
        assert!(said.contains("alpha: 1 recording, its clock is the reference"), "{said}");
        assert!(said.contains("by messages"), "{said}");
        assert!(said.contains("have no known order; messages compared"), "{said}");
        let is_wrong = said.contains("the wall clock of beta was");
        assert_eq!((is_wrong, said.contains(shown)), (wall_ns != 0, true), "{said}");
        otf2_check::check(&archive).expect("an archive by the rules");
        let definitions = definitions(&archive);
        let has = |part: &str| definitions.lines().any(|line| unpadded(line).contains(part));
        assert!(has("\"Clock source\""), "{definitions}");
        assert_eq!(has("\"Wall clock error (ns)\""), wall_ns != 0);
    }
}

/// Fails if a host without comparisons is said to be compared, or an unusable file is passed over.
#[test]
fn hosts_without_comparisons_keep_their_wall_clocks() {
    let dir = scratch_dir("uncompared");
    let injected = Injected { offset_ns: 9 * 1_000_000, drift_ppb: 0 };
    let mut job = compared_job(dir.path(), injected, 0);
    job.logs.push(Made { host: "gamma", ..DD }.write(dir.path(), "gamma"));
    // The host booted again since.
    let other_boot = Made { host: "beta", later_ns: 3600 * 1_000_000_000, ..DD };
    job.logs.push(other_boot.write(dir.path(), "beta-later"));
    let said = merged_with(&job, &dir.path().join("a.otf2"), &[]).success().stderr();
    assert!(said.contains("but for those of beta, gamma (no comparison"), "{said}");
    assert!(said.contains("their order holds if the wall clocks are right"), "{said}");

    fs::write(job.clocks.join("other.json"), "{}").expect("space");
    let finished = merged_with(&job, &dir.path().join("b.otf2"), &[]);
    assert_eq!(finished.status.code(), Some(1));
    let said = finished.stderr();
    assert!(said.contains("other.json: it is no file of iotrace-perf clocks"), "{said}");
    let nothing = dir.path().join("missing");
    let logs: Vec<&Path> = job.logs.iter().map(PathBuf::as_path).collect();
    let finished = merge(&logs, &dir.path().join("c.otf2"), &["--clocks", text(&nothing)]);
    assert_eq!(finished.status.code(), Some(1));
    let said = finished.stderr();
    assert!(said.contains("missing: ") && said.contains("if the wall clocks are right"), "{said}");
}

/// Fails if a known offset is not added to a clock that was compared.
#[test]
fn known_offsets_move_compared_hosts() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("moved");
    let job = compared_job(dir.path(), Injected { offset_ns: 0, drift_ppb: 0 }, 0);
    let archive = dir.path().join("job.otf2");
    merged_with(&job, &archive, &["--clock-offset", "beta=+12ms"]).success();
    let times: Vec<(u64, u64)> = spans(&archive).into_values().collect();
    let found = times[times.len() / 2].0 - times[0].0;
    assert!(found.abs_diff(12 * MS) < 20_000, "{found}");
}

/// Copies a recording without its end, and adds a frame at a later time.
#[track_caller]
fn without_end(log: &Path, to: &Path, last: u64) {
    let mut writer = copy_frames(log, to, |_, frame, _| frame.kind == FrameKind::END);
    writer.round(KernelTime(last)).expect("space");
}

/// Fails if events after the last comparison are said to be known as well as those before it,
/// because their recording has no end.
#[test]
fn recording_without_an_end_is_in_the_bound_up_to_its_last_frame() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("cut");
    let mut job = compared_job(dir.path(), Injected { offset_ns: 0, drift_ppb: 0 }, 0);
    let cut = dir.path().join("cut.iocap");
    // The last comparison is at 580 s.
    without_end(&job.logs[1], &cut, job.span[0] + 1_580 * S);
    job.logs[1] = cut;
    let archive = dir.path().join("job.otf2");
    let finished = merged_with(&job, &archive, &[]);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr());
    let bound = bound(&archive);
    assert!((200 * MS..230 * MS).contains(&bound), "{bound}: {}", finished.stderr());
}

/// Writes the first comparison of beta anew: later, and off by this much.
#[track_caller]
fn add_comparison(job: &ComparedJob, later_ns: i64, off_ns: i64) {
    let of_beta = files(&job.clocks).into_iter().filter(|file| file.host.hostname == "beta");
    let first = of_beta.min_by_key(|file| file.wall[0].time_ns).expect("a comparison");
    let moved = |time: u64, by: i64| time.saturating_add_signed(by);
    let mut file = first.clone();
    for exchange in &mut file.shortest {
        exchange.sent_ns = moved(exchange.sent_ns, later_ns);
        exchange.returned_ns = moved(exchange.returned_ns, later_ns);
        exchange.received_ns = moved(exchange.received_ns, later_ns + off_ns);
        exchange.answered_ns = moved(exchange.answered_ns, later_ns + off_ns);
    }
    for reading in &mut file.wall {
        reading.time_ns = moved(reading.time_ns, later_ns);
        reading.realtime_ns = moved(reading.realtime_ns, later_ns);
    }
    let path = job.clocks.join(format!("added{later_ns}.json"));
    fs::write(path, serde_json::to_vec(&file).expect("JSON")).expect("space");
}

/// Fails if a comparison long before the recordings has a part in their clocks, or if one that
/// does not fit is in no bound.
#[test]
fn comparisons_that_surround_the_recordings_count() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("surrounding");
    let job = compared_job(dir.path(), Injected { offset_ns: 7_000_000, drift_ppb: 0 }, 0);
    add_comparison(&job, -10 * S.cast_signed(), 5_000_000);
    let archive = dir.path().join("before.otf2");
    let said = merged_with(&job, &archive, &[]).success().stderr();
    let found = bound(&archive);
    assert!((5_000..60_000).contains(&found) && !said.contains("not on a line"), "{found}: {said}");
    add_comparison(&job, 10 * S.cast_signed(), 300_000_000);
    let archive = dir.path().join("between.otf2");
    let said = merged_with(&job, &archive, &[]).success().stderr();
    let found = bound(&archive);
    assert!(found > 299 * MS && said.contains("of beta are not on a line"), "{found}: {said}");
}

/// Fails if comparisons of hosts without recordings choose the reference, or count as recordings
/// that are left out.
#[test]
fn comparisons_of_other_hosts_are_left_out() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("others");
    let job = compared_job(dir.path(), Injected { offset_ns: 7_000_000, drift_ppb: 0 }, 0);
    let others = files(&job.clocks).into_iter().filter(|file| !file.is_reference());
    for (number, file) in others.cycle().take(7).enumerate() {
        let other = |name: String| ClockedHost { hostname: name, ..file.host.clone() };
        let host = other(format!("gamma{number}"));
        let file = ClockFile { host, reference: other("delta".into()), ..file.clone() };
        let path = job.clocks.join(format!("{}.json", file.host.hostname));
        fs::write(path, serde_json::to_vec(&file).expect("JSON")).expect("space");
    }
    let archive = dir.path().join("job.otf2");
    let finished = merged_with(&job, &archive, &[]);
    let said = finished.stderr();
    assert_eq!(finished.status.code(), Some(1), "{said}");
    assert!(said.contains("alpha: 1 recording, its clock is the reference"), "{said}");
    assert!(said.contains("it is a comparison with delta (boot 1), and others"), "{said}");
    assert_eq!(property(&archive, "IOTRACE::RECORDINGS_LEFT_OUT"), 0);
}

/// Fails if the bound of a recording whose boot was not compared is taken for that of another one
/// of the host.
#[test]
fn recordings_of_one_boot_have_the_larger_bound() {
    if !require(Need::Otf2Print) {
        return;
    }
    let dir = scratch_dir("larger");
    let mut job = compared_job(dir.path(), Injected { offset_ns: 0, drift_ppb: 0 }, 0);
    // Wall clocks that were set: within a second of each other, and one of the comparison.
    let of_beta = |ms: u64, name| {
        let later_ns = (ms * MS).cast_signed();
        Made { host: "beta", later_ns, ..DD }.write(dir.path(), name)
    };
    job.logs.truncate(1);
    job.logs.extend([of_beta(1_400, "aa"), of_beta(500, "bb")]);
    let archive = dir.path().join("job.otf2");
    let said = merged_with(&job, &archive, &[]).success().stderr();
    assert!(said.contains("no comparison of this boot"), "{said}");
    let found = bound(&archive);
    assert!(found > 900 * MS, "{found}: {said}");
}
