//! Tests of both sides of a comparison of clocks, and of peers that break the rules.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use super::clock;
use super::clock_client::ClockConnection;
use super::clock_service::{ClockService, ServedHosts};
use super::clock_wire::{ClockAnswer, ClockSecret};
use crate::capture::clock_exchange::Exchange;
use crate::units::KernelTime;

const S: u64 = 1_000_000_000;

fn within(seconds: u64) -> KernelTime {
    KernelTime(clock::now().0 + seconds * S)
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Starts a reference for this many hosts.
fn reference(
    expected: u64,
    seconds: u64,
) -> (SocketAddr, ClockSecret, JoinHandle<std::io::Result<ServedHosts>>) {
    let secret = ClockSecret::new().expect("random bytes");
    let service = ClockService::listen(&[at(0)], secret.clone()).expect("a port");
    let address = at(service.port().expect("a port"));
    (address, secret, spawn(move || service.serve(expected, within(seconds))))
}

/// Compares as a host does; both sides have the same clock.
#[track_caller]
fn compare(address: SocketAddr, secret: &ClockSecret) {
    let mut connection = ClockConnection::open(address, secret, within(20)).expect("connected");
    let exchanges = connection.exchanges().expect("answers");
    let readings = exchanges.iter().filter_map(Exchange::reading);
    let best = readings.min_by_key(|reading| reading.bound_ns).expect("readings");
    assert!(best.offset_ns.unsigned_abs() <= best.bound_ns.into(), "{best:?}");
    connection.end(best.bound_ns).expect("connected");
}

#[test]
fn hosts_are_compared_beside_each_other() {
    let (address, secret, service) = reference(7, 30);
    let host = |_| {
        let secret = secret.clone();
        spawn(move || compare(address, &secret))
    };
    let hosts: Vec<_> = (0..7).map(host).collect();
    hosts.into_iter().for_each(|host| host.join().expect("compared"));
    let served = service.join().expect("it ends").expect("served");
    assert_eq!(served.ended, 7);
    assert!((1..S).contains(&served.bound_ns), "{served:?}");
}

/// Fails if a stranger gets an answer, or keeps hosts from theirs.
#[test]
fn strangers_get_no_answer_and_stop_no_host() {
    let (address, secret, service) = reference(1, 30);
    // More than may be there without the secret: silent ones, and some with half a greeting.
    let strangers: Vec<TcpStream> = (0..70)
        .map(|number: u8| {
            let mut stranger = TcpStream::connect(address).expect("it listens");
            let bytes = [b"IOTRCLK1".as_slice(), &[number; 20]].concat();
            if number.is_multiple_of(2) {
                stranger.write_all(&bytes).expect("connected");
            }
            stranger
        })
        .collect();
    let mut garbage = TcpStream::connect(address).expect("it listens");
    garbage.write_all(&[0x5a; 4099]).expect("connected");
    let mut wrong = TcpStream::connect(address).expect("it listens");
    let other = ClockSecret::new().expect("random bytes");
    wrong.write_all(&other.host_greeting()).expect("connected");
    compare(address, &secret);
    assert_eq!(service.join().expect("it ends").expect("served").ended, 1);
    for mut stranger in strangers.into_iter().chain([garbage, wrong]) {
        let mut bytes = Vec::new();
        // The connection was closed or reset.
        let _ = stranger.read_to_end(&mut bytes);
        assert_eq!(bytes, b"");
    }
}

/// Fails if a host that stops in the middle counts, or keeps the reference beyond its deadline.
#[test]
fn silent_host_does_not_count() {
    let is_met = |seconds| {
        let (address, secret, service) = reference(1, seconds);
        let connection = ClockConnection::open(address, &secret, within(20));
        let served = service.join().expect("it ends").expect("served");
        assert_eq!(served, ServedHosts::default());
        connection.is_ok()
    };
    // On a busy machine the host comes later.
    assert!([1, 5, 25].into_iter().any(is_met));
}

/// Fails if the reference waits for a host that has said it failed.
#[test]
fn failed_host_is_not_awaited() {
    let (address, secret, service) = reference(2, 60);
    let connection = ClockConnection::open(address, &secret, within(20)).expect("connected");
    connection.fail();
    compare(address, &secret);
    let served = service.join().expect("it ends").expect("served");
    assert_eq!((served.ended, served.failed), (1, 1));
}

/// Fails if a host without a turn counts, or a reference is not found by its secret.
#[test]
fn reference_answers_those_with_its_secret() {
    let (address, secret, service) = reference(1, 60);
    assert!(ClockConnection::is_answered(address, &secret, within(20)));
    let other = ClockSecret::new().expect("random bytes");
    assert!(!ClockConnection::is_answered(address, &other, within(20)));
    compare(address, &secret);
    assert_eq!(service.join().expect("it ends").expect("served").ended, 1);
    assert!(!ClockConnection::is_answered(address, &secret, within(20)));
}

/// Keeps a connection until the host closes it: one that is closed before its bytes were read is
/// reset.
fn keep(mut host: TcpStream) {
    let _ = host.read_to_end(&mut Vec::new());
}

/// Runs a server that breaks the rules, and returns the error of the host.
#[track_caller]
fn error_of(
    serve: impl FnOnce(TcpStream, ClockSecret) + Send + 'static,
    seconds: u64,
) -> std::io::Error {
    result_of(serve, seconds).expect_err("no reference")
}

/// Runs a server that breaks the rules, and returns what the host has.
#[track_caller]
fn result_of(
    serve: impl FnOnce(TcpStream, ClockSecret) + Send + 'static,
    seconds: u64,
) -> std::io::Result<Vec<Exchange>> {
    let listener = TcpListener::bind(at(0)).expect("a port");
    let address = listener.local_addr().expect("a port");
    let secret = ClockSecret::new().expect("random bytes");
    let known = secret.clone();
    let server = spawn(move || serve(listener.accept().expect("a host").0, known));
    let begun = clock::now();
    let compared = ClockConnection::open(address, &secret, within(seconds))
        .and_then(|mut connection| connection.exchanges());
    assert!(clock::now().0 - begun.0 < 12 * S, "{compared:?}");
    server.join().expect("it ends");
    compared
}

/// Fails if one answer that does not come discards all before it.
#[test]
fn exchanges_before_a_slow_answer_are_kept() {
    let answers = |count: u64| {
        move |mut host: TcpStream, secret: ClockSecret| {
            host.write_all(&secret.reference_greeting()).expect("connected");
            host.write_all(&ClockAnswer::BEGIN.encode()).expect("connected");
            host.read_exact(&mut [0; 40]).expect("a greeting");
            for number in 0..count {
                host.read_exact(&mut [0; 16]).expect("a message");
                let now = clock::now().0;
                let answer = ClockAnswer { number, received_ns: now, answered_ns: now };
                host.write_all(&answer.encode()).expect("connected");
            }
            keep(host);
        }
    };
    assert_eq!(result_of(answers(20), 60).expect("enough").len(), 20);
    assert_eq!(error_of(answers(3), 60).kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn servers_that_are_no_reference_are_recognised() {
    let other = |mut host: TcpStream, _| {
        host.write_all(&[7; 64]).expect("connected");
        keep(host);
    };
    let garbage = error_of(other, 60);
    assert!(garbage.to_string().contains("another program"), "{garbage}");
    let closed = error_of(|host, _| drop(host), 5);
    assert!(!closed.to_string().is_empty());
    let silent = error_of(|host, _| keep(host), 1);
    assert_eq!(silent.kind(), std::io::ErrorKind::TimedOut);
    let slow = |mut host: TcpStream, _| {
        // One byte less than a greeting has; the host gives up meanwhile.
        for byte in 1..40 {
            let _ = host.write_all(&[byte]);
            sleep(Duration::from_millis(50));
        }
        keep(host);
    };
    assert_eq!(error_of(slow, 1).kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn references_with_wrong_answers_are_recognised() {
    let greet = |host: &mut TcpStream, secret: &ClockSecret| {
        host.write_all(&secret.reference_greeting()).expect("connected");
        host.write_all(&ClockAnswer::BEGIN.encode()).expect("connected");
    };
    let number = move |mut host: TcpStream, secret: ClockSecret| {
        greet(&mut host, &secret);
        let answer = ClockAnswer { number: 5, received_ns: 1, answered_ns: 1 };
        host.write_all(&answer.encode()).expect("connected");
        keep(host);
    };
    assert!(error_of(number, 60).to_string().contains("answer that is none"));
    let impossible = move |mut host: TcpStream, secret: ClockSecret| {
        greet(&mut host, &secret);
        let answer = ClockAnswer { number: 0, received_ns: 9, answered_ns: 1 };
        host.write_all(&answer.encode()).expect("connected");
        keep(host);
    };
    assert!(error_of(impossible, 60).to_string().contains("answer that is none"));
    let mute = move |mut host: TcpStream, secret: ClockSecret| {
        greet(&mut host, &secret);
        keep(host);
    };
    assert_eq!(error_of(mute, 60).kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn missing_server_is_an_error_at_once() {
    // The port of a client is taken, and does not listen.
    let listener = TcpListener::bind(at(0)).expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("a port")).expect("it listens");
    let address = client.local_addr().expect("a port");
    let secret = ClockSecret::new().expect("random bytes");
    let error = ClockConnection::open(address, &secret, within(20)).expect_err("no server");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
