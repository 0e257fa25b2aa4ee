//! Ranks of a parallel job on one node: which of their tracers records all of them.
//!
//! The launcher starts one tracer for each rank. They meet at an abstract socket whose name has the
//! user, the launcher's process on this node, the job, and the names of the outputs:
//!
//! ```text
//!  local rank 0 ── listens ── collects ranks ── forks its program ── records ── "go" ─► waits
//!  other ranks ─── connect ── wait for an answer ──────────────────────────────────┘ exec
//! ```
//!
//! The recorder takes the number of each process from the kernel, not from what it writes, and
//! only processes of its own user. It attaches to the waiting processes, so that all of what their
//! programs do is recorded. A rank that is not recorded so gets an answer that says so, or finds
//! that its recorder has ended; no rank waits without a limit.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::job::{self, Meeting};
use super::joined_ranks::{ARRIVAL_NS, JoinedRanks};
use super::named_thread::spawn_named;
use super::threads::own_name;
use crate::capture::header::{JobPlace, ProcessRank};
use crate::sys::rank_socket::{self, Peer};
use crate::sys::{clock, thread};

/// Time in which the first local rank takes the name before another rank does, ns.
const FIRST_RANK_NS: u64 = 2_000_000_000;
/// Time after which a rank gives up to find or to become the recorder, ns.
const NAME_NS: u64 = 5_000_000_000;
/// Interval of the attempts to connect.
const RETRY: Duration = Duration::from_millis(10);
/// Time after the last arrival in which the recorder waits for further ranks of unknown number, ns.
const QUIET_NS: u64 = 1_000_000_000;
/// Time in which a rank waits for the recorder's answer.
const ANSWER: Duration = Duration::from_secs(120);
/// Time in which a rank that has come too late reads its answer.
const LATE: Duration = Duration::from_secs(1);

/// Answer: the recording is on.
const GO: u8 = b'g';
/// Answer: the recording began before.
const TOO_LATE: u8 = b'l';
/// Answer: the recorder may not trace the process.
const FORBIDDEN: u8 = b'f';
/// Answer: the recorder has this rank already, so the process belongs to another recording.
const OTHER_RECORDING: u8 = b'o';

/// Part of a tracer among those of its node.
#[derive(Debug)]
pub enum NodeRole {
    /// The recorder of all ranks of the node.
    Recorder(NodeRanks),
    /// A rank that another process records, from this moment on.
    Recorded,
    /// A rank that records itself, for this reason.
    Alone(String),
    /// A rank that is not recorded, for this reason.
    Unrecorded(String),
}

/// Ranks that wait for their recorder.
#[derive(Debug)]
pub struct NodeRanks {
    listener: UnixListener,
    arrived: Vec<ArrivedRank>,
    /// Number of ranks on the node that have not come, or have ended while they waited.
    missing: u64,
    /// Rank of the recorder itself.
    own_rank: Option<u64>,
    is_system: bool,
}

/// A rank that waits.
#[derive(Debug)]
struct ArrivedRank {
    stream: UnixStream,
    process: ProcessRank,
}

/// Meets the other ranks of the node that write to the same `outputs`. `is_system`: the recorder
/// records the whole machine. `None`: no launcher of a parallel job has started this process.
///
/// # Errors
///
/// Those of sockets.
pub fn meet(outputs: &[OsString], is_system: bool) -> io::Result<Option<NodeRole>> {
    let Some(meeting) = job::meeting(outputs) else { return Ok(None) };
    let user = nix::unistd::geteuid().as_raw();
    let name = format!("iotrace-perf/{user}/{}", meeting.name);
    let found = find(&name, meeting.place.local_rank)?;
    Ok(Some(match found {
        FoundRecorder::Own(listener) => {
            NodeRole::Recorder(collect(listener, &meeting, user, is_system))
        }
        FoundRecorder::Other(stream) => role_of_answer(stream, user)?,
        FoundRecorder::None => NodeRole::Alone(format!(
            "the recorder of this node did not accept a connection within {} s",
            NAME_NS / 1_000_000_000
        )),
    }))
}

/// Result of the search for the recorder.
enum FoundRecorder {
    /// The name, which this process has now.
    Own(UnixListener),
    /// Connection to the process that has the name.
    Other(UnixStream),
    /// Neither was possible in time.
    None,
}

/// Connects to the recorder, or becomes it: at once as the first local rank, or if the launcher
/// gives no local ranks, otherwise if the first one does not come.
fn find(name: &str, local_rank: Option<u64>) -> io::Result<FoundRecorder> {
    let begin = clock::now().0;
    let lead_ns = if local_rank.unwrap_or(0) == 0 { 0 } else { FIRST_RANK_NS };
    loop {
        match rank_socket::connect_to(name) {
            Ok(stream) => return Ok(FoundRecorder::Other(stream)),
            Err(error) => match error.kind() {
                // No process listens; or too many wait in the queue of the one that does.
                io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => {}
                _ => return Err(error),
            },
        }
        let passed_ns = clock::now().0.saturating_sub(begin);
        if passed_ns >= lead_ns {
            match rank_socket::listen(name) {
                Ok(listener) => return Ok(FoundRecorder::Own(listener)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        if passed_ns >= NAME_NS {
            return Ok(FoundRecorder::None);
        }
        thread::pause(RETRY);
    }
}

/// Waits for the answer of the recorder. The read has begun when the recording begins, and the
/// program follows it: no other call of this process is recorded.
fn role_of_answer(mut stream: UnixStream, user: u32) -> io::Result<NodeRole> {
    let owner = rank_socket::peer(&stream)?.user;
    if owner != user {
        return Ok(NodeRole::Alone(format!(
            "the name of the recorder of this node belongs to user {owner}"
        )));
    }
    stream.set_read_timeout(Some(ANSWER))?;
    let mut answer = [0];
    let role = match read_answer(&mut stream, &mut answer) {
        Ok(1) => match answer {
            [GO] => NodeRole::Recorded,
            [FORBIDDEN] => {
                NodeRole::Alone("the recorder of this node may not trace this process".to_owned())
            }
            [OTHER_RECORDING] => NodeRole::Alone(
                "the same rank is in another recording that is under way: give each its own name (-o)"
                    .to_owned(),
            ),
            _ => NodeRole::Alone("the recording of this node began before".to_owned()),
        },
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => NodeRole::Unrecorded(format!(
            "the recorder of this node has not begun within {} s",
            ANSWER.as_secs()
        )),
        _ => NodeRole::Unrecorded(
            "the recorder of this node ended before the recording began".to_owned(),
        ),
    };
    Ok(role)
}

/// Reads the answer. A process that is stopped and continued begins anew (`signal(7)`).
fn read_answer(stream: &mut UnixStream, answer: &mut [u8; 1]) -> io::Result<usize> {
    loop {
        match stream.read(answer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Collects the ranks of the node until all have come, or no further one comes.
fn collect(listener: UnixListener, meeting: &Meeting, user: u32, is_system: bool) -> NodeRanks {
    let expected = meeting.place.local_size;
    let patience_ns = if expected.is_some() { ARRIVAL_NS } else { QUIET_NS };
    let (mut arrived, mut seen) = (Vec::<ArrivedRank>::new(), 1_u64);
    let mut last = clock::now().0;
    while expected.is_none_or(|count| seen < count) {
        let waited_ns = clock::now().0.saturating_sub(last);
        let left_ms = patience_ns.saturating_sub(waited_ns) / 1_000_000;
        if left_ms == 0 {
            break;
        }
        let left_ms = u16::try_from(left_ms).unwrap_or(u16::MAX);
        match rank_socket::accept_within(&listener, left_ms) {
            Ok(stream) => {
                // A stranger does not extend the time.
                let Some(peer) = rank_socket::peer(&stream).ok().filter(|peer| peer.user == user)
                else {
                    continue;
                };
                let place = job::place_of(peer.pid).filter(|_| peer.pid.0 > 0);
                let rank = place.as_ref().and_then(|place| place.rank);
                let known = arrived.iter().map(|known| known.process.rank);
                if rank.is_some() && known.chain([meeting.place.rank]).any(|known| known == rank) {
                    answer(stream, OTHER_RECORDING);
                    continue;
                }
                (seen, last) = (seen + 1, clock::now().0);
                arrived.extend(arrival(stream, peer, place, is_system));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let came = arrived.len();
    arrived.retain(|rank| !rank_socket::is_closed(&rank.stream));
    let ended = (came - arrived.len()) as u64;
    let missing = expected.map_or(0, |count| count.saturating_sub(seen)) + ended;
    NodeRanks { listener, arrived, missing, own_rank: meeting.place.rank, is_system }
}

/// Returns the rank that has connected; `None`: it cannot be traced, and the answer says so. A
/// process whose environment this one may read is one that it may trace (`ptrace_may_access()`).
fn arrival(
    stream: UnixStream,
    peer: Peer,
    place: Option<JobPlace>,
    is_system: bool,
) -> Option<ArrivedRank> {
    if place.is_none() && !is_system {
        answer(stream, FORBIDDEN);
        return None;
    }
    let JobPlace { rank, local_rank, .. } = place.unwrap_or_default();
    Some(ArrivedRank { stream, process: ProcessRank { pid: peer.pid.0, rank, local_rank } })
}

/// Answers a rank, which may have ended.
fn answer(mut stream: UnixStream, answer: u8) {
    let _ = stream.write_all(&[answer]);
}

impl NodeRanks {
    /// Returns the ranks that join the recorder's program.
    pub fn joined(&self) -> JoinedRanks {
        // A process of another pid namespace has no number here. With `-a` it is recorded, too.
        let numbered = self.arrived.iter().filter(|rank| rank.process.pid > 0);
        let processes = numbered.map(|rank| rank.process).collect();
        JoinedRanks { processes, missing: self.missing }
    }

    /// Lets all ranks become their programs, and answers those that come later: the recording is
    /// on until the result is dropped.
    pub fn release(self) -> LateRanks {
        let Self { listener, arrived, own_rank, is_system, .. } = self;
        let known = arrived.iter().filter_map(|rank| rank.process.rank).chain(own_rank).collect();
        for rank in arrived {
            answer(rank.stream, GO);
        }
        let late = LateRanks::default();
        let has_ended = Arc::clone(&late.has_ended);
        // Without the thread late ranks wait for the end of this process, and run on.
        let _ = spawn_named(&own_name(), move || {
            answer_late_ranks(&listener, is_system, known, &has_ended);
        });
        late
    }
}

/// Ranks that come while the recording is on.
#[derive(Debug, Default)]
pub struct LateRanks {
    has_ended: Arc<AtomicBool>,
}

impl Drop for LateRanks {
    fn drop(&mut self) {
        // ORDERING: a flag alone; nothing is published with it.
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// Answers each rank that comes after the start of the recording. The whole machine is recorded
/// with whatever comes, until the recording has ended. A rank that is `known` already belongs to
/// another recording, which has outputs of its own. Ranks of other users are not remembered.
fn answer_late_ranks(
    listener: &UnixListener,
    is_system: bool,
    mut known: HashSet<u64>,
    has_ended: &AtomicBool,
) {
    let user = nix::unistd::geteuid().as_raw();
    while let Ok((stream, _)) = listener.accept() {
        let peer = rank_socket::peer(&stream).ok();
        let peer = peer.filter(|peer| peer.user == user && peer.pid.0 > 0);
        let rank = peer.and_then(|peer| job::place_of(peer.pid)?.rank);
        let is_other = rank.is_some_and(|rank| !known.insert(rank));
        // ORDERING: a flag alone; nothing is published with it.
        let is_recorded = is_system && !has_ended.load(Ordering::Relaxed);
        let _ = stream.set_write_timeout(Some(LATE));
        answer(
            stream,
            match (is_recorded, is_other) {
                (true, true) => OTHER_RECORDING,
                (true, false) => GO,
                (false, _) => TOO_LATE,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(test: &str) -> String {
        format!("iotrace-perf-test/{test}/{}", std::process::id())
    }

    /// Fails if the first local rank does not record, or if a later one waits for it in vain.
    #[test]
    fn first_local_rank_records_and_another_one_without_it() {
        let name = name("first");
        let begin = clock::now().0;
        let Ok(FoundRecorder::Own(first)) = find(&name, Some(0)) else { panic!("a recorder") };
        assert!(clock::now().0 - begin < FIRST_RANK_NS);
        assert!(matches!(find(&name, Some(1)), Ok(FoundRecorder::Other(_))));
        assert!(matches!(find(&name, None), Ok(FoundRecorder::Other(_))));
        drop(first);
        let begin = clock::now().0;
        assert!(matches!(find(&name, Some(1)), Ok(FoundRecorder::Own(_))));
        assert!(clock::now().0 - begin >= FIRST_RANK_NS);
    }

    /// Fails if a rank waits for a name of another user, or for a recorder that has ended.
    #[test]
    fn answers_decide_the_role() {
        let own = nix::unistd::geteuid().as_raw();
        let role = |user: u32, answer: &[u8]| {
            let name = name(&format!("answer/{user}/{answer:?}"));
            let listener = rank_socket::listen(&name).expect("a free name");
            let rank = rank_socket::connect_to(&name).expect("it listens");
            let mut stream = rank_socket::accept_within(&listener, 1000).expect("connected");
            stream.write_all(answer).expect("room");
            drop(stream);
            role_of_answer(rank, user).expect("an answer")
        };
        assert!(matches!(role(own, &[GO]), NodeRole::Recorded));
        assert!(matches!(role(own, &[TOO_LATE]), NodeRole::Alone(_)));
        assert!(matches!(role(own, &[FORBIDDEN]), NodeRole::Alone(_)));
        assert!(matches!(role(own, &[OTHER_RECORDING]), NodeRole::Alone(_)));
        assert!(matches!(role(own, &[]), NodeRole::Unrecorded(_)));
        assert!(matches!(role(own.wrapping_add(1), &[GO]), NodeRole::Alone(_)));
    }
}
