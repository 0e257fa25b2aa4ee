//! Hosts of a parallel job on one machine: each has a name and a network of its own, and a launcher
//! reaches it through an agent as through ssh.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::driver::process::{Finished, run};
use crate::support::driver::recording::{TIMEOUT, wait_until};
use crate::support::text;

/// Agent of a launcher: `agent ADDRESS COMMAND…` runs the command on the host with this address.
const AGENT: &str = "#!/bin/sh
address=$1; shift
pid=$(cat \"$(dirname \"$0\")/$address\")
time=
[ \"$(readlink /proc/\"$pid\"/ns/time)\" = \"$(readlink /proc/self/ns/time)\" ] || time=--time
exec nsenter --target \"$pid\" --net --uts $time sh -c \"$*\"
";

/// First process of a host: takes the name, leaves its number and stays.
const HOST: &str = "echo \"$0\" >/proc/sys/kernel/hostname && echo $$ >\"$1\" && exec sleep 600";

/// Offset of the second host's time namespace, in seconds.
const TIME_OFFSET: &str = "7";

/// Hosts `node1`, `node2`, …; the drop removes them.
#[derive(Debug)]
pub(crate) struct JobHosts {
    /// Directory with the agent.
    dir: PathBuf,
    /// Part of the names of the network namespaces.
    name: String,
    hosts: Vec<Child>,
}

impl JobHosts {
    /// Makes this many hosts; the second one has a time namespace, whose monotonic clock is
    /// ahead of the kernel's; the clock of records is the kernel's.
    #[track_caller]
    pub(crate) fn new(dir: &Path, count: u8) -> Self {
        let agent = dir.join("agent");
        fs::write(&agent, AGENT).expect("space");
        fs::set_permissions(&agent, Permissions::from_mode(0o755)).expect("ours");
        let name = format!("iotrace{}", std::process::id());
        let mut hosts = Self { dir: dir.to_owned(), name, hosts: Vec::new() };
        let hub = hosts.network(0);
        ip(&["netns", "add", &hub]);
        ip(&["-n", &hub, "link", "add", "hub", "type", "bridge"]);
        ip(&["-n", &hub, "link", "set", "hub", "up"]);
        for number in 1..=count {
            hosts.add(number);
        }
        hosts
    }

    fn network(&self, number: u8) -> String {
        format!("{}-{number}", self.name)
    }

    /// Address of a host.
    pub(crate) fn address(number: u8) -> String {
        format!("10.77.0.{number}")
    }

    fn add(&mut self, number: u8) {
        let (hub, own, port) = (self.network(0), self.network(number), format!("port{number}"));
        ip(&["netns", "add", &own]);
        let link = ["-n", &own, "link", "add", "eth0", "type", "veth", "peer", "name", &port];
        ip(&[&link[..], &["netns", &hub]].concat());
        ip(&["-n", &hub, "link", "set", &port, "master", "hub", "up"]);
        let address = format!("{}/24", Self::address(number));
        ip(&["-n", &own, "addr", "add", &address, "dev", "eth0"]);
        ip(&["-n", &own, "link", "set", "eth0", "up"]);
        ip(&["-n", &own, "link", "set", "lo", "up"]);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &own, "unshare", "--uts", "--fork", "--kill-child"]);
        if number == 2 {
            command.args(["--time", "--monotonic", TIME_OFFSET]);
        }
        let pid = self.dir.join(Self::address(number));
        command.args(["sh", "-c", HOST, &format!("node{number}"), text(&pid)]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.hosts.push(child.expect("it starts"));
        let has_number = || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'));
        wait_until("a host is there", has_number);
    }

    /// Runs a command on a host.
    #[track_caller]
    pub(crate) fn run(&self, number: u8, command: &str) -> Finished {
        let mut agent = Command::new(self.dir.join("agent"));
        run(agent.args([&Self::address(number), command]), TIMEOUT).expect("it ends")
    }
}

impl Drop for JobHosts {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            // What is left ends with the machine's network namespaces, or after ten minutes.
            let _ = host.kill();
            let _ = host.wait();
        }
        for number in 0..=u8::try_from(self.hosts.len()).unwrap_or(u8::MAX) {
            let network = self.network(number);
            let _ = run(Command::new("ip").args(["netns", "del", &network]), TIMEOUT);
        }
    }
}

#[track_caller]
fn ip(arguments: &[&str]) {
    run(Command::new("ip").args(arguments), TIMEOUT).expect("it ends").success();
}
