//! Addresses of the network interfaces of this host.

use std::net::{IpAddr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// Returns the addresses at which other hosts may reach this one, those of IPv4 first; only if
/// there are none, those of the host itself.
pub fn own_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = getifaddrs() else { return Vec::new() };
    let up = interfaces.filter(|found| found.flags.contains(InterfaceFlags::IFF_UP));
    let mut addresses: Vec<IpAddr> = up
        .filter_map(|found| address(&found.address?))
        .filter(|found| !needs_interface(*found))
        .collect();
    addresses.sort_by_key(|found| (found.is_loopback(), found.is_ipv6()));
    addresses.dedup();
    let others = addresses.iter().filter(|found| !found.is_loopback()).count();
    if others > 0 {
        addresses.truncate(others);
    }
    addresses
}

fn address(found: &SockaddrStorage) -> Option<IpAddr> {
    let four = found.as_sockaddr_in().map(|found| IpAddr::V4(found.ip()));
    four.or_else(|| found.as_sockaddr_in6().map(|found| IpAddr::V6(found.ip())))
}

/// True for a link-local address: it is one only together with an interface.
fn needs_interface(found: IpAddr) -> bool {
    match found {
        IpAddr::V4(found) => found.is_link_local(),
        IpAddr::V6(found) => Ipv6Addr::is_unicast_link_local(&found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_for_hosts_without_others() {
        let found = own_addresses();
        let others = found.iter().filter(|found| !found.is_loopback()).count();
        assert!(others == 0 || others == found.len(), "{found:?}");
        assert!(found.iter().all(|found| !needs_interface(*found)), "{found:?}");
    }
}
