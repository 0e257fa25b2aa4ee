//! Arguments of `clocks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::values::parse_limit;

/// Arguments of `clocks`.
#[derive(Debug, ClapArgs)]
pub(super) struct ClocksArgs {
    /// The directory of the results, on a file system that all nodes share; rank 0 is found through
    /// it, too. It is created if it does not exist
    #[arg(short, long, required = true, value_name = "DIR")]
    pub(super) output: PathBuf,
    /// Name or address at which the others reach rank 0, which listens there alone, and its TCP
    /// port [default: all addresses of its interfaces; a free port]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_address)]
    pub(super) address: Option<ReferenceAddress>,
    /// Time in which all processes must have come
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_limit)]
    pub(super) timeout: Duration,
}

/// Address of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReferenceAddress {
    pub(super) host: String,
    /// 0: a free port.
    pub(super) port: u16,
}

/// Parses `node1`, `node1:4711`, `10.0.0.1`, `::1` and `[::1]:4711`.
fn parse_address(text: &str) -> Result<ReferenceAddress, String> {
    let wanted = || "a name or an address, and a port if wanted, such as node1:4711".to_owned();
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wanted)?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Ok(0), |port| port.parse().map_err(|_| wanted()))?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || ".-_:".contains(letter);
    if host.is_empty() || !host.chars().all(is_name) {
        return Err(wanted());
    }
    Ok(ReferenceAddress { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_perhaps_a_port() {
        for (text, host, port) in [
            ("node1", "node1", 0),
            ("node1-ib:4711", "node1-ib", 4711),
            ("10.0.0.1", "10.0.0.1", 0),
            ("fe80::1", "fe80::1", 0),
            ("[fe80::1]:4711", "fe80::1", 4711),
            ("[::1]", "::1", 0),
        ] {
            let expected = ReferenceAddress { host: host.into(), port };
            assert_eq!(parse_address(text), Ok(expected), "{text}");
        }
        for text in ["", ":4711", "node1:", "node1:x", "node1:70000", "[::1", "a b", "node1:-1"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
