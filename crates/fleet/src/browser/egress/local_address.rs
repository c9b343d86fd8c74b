//! Detection of this machine's own addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Whether an address belongs to this machine: only such an address can be bound. Checked each
/// time, because addresses come and go. An address that is translated by NAT on its way here is not
/// detected.
pub(super) fn is_local(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if !can_be_bound(address) {
        return false;
    }
    // Some machines allow any address to be bound. There, the source address of a packet to itself
    // decides; none is sent.
    !can_be_bound(unassigned_like(address)) || routes_to_itself(address)
}

fn can_be_bound(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// An address of the same version from a documentation range, which no machine has.
fn unassigned_like(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    }
}

fn routes_to_itself(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_addresses_are_told_from_others() {
        for own in ["127.0.0.1", "::ffff:127.0.0.1"] {
            assert!(is_local(own.parse().unwrap()), "{own}");
        }
        for other in ["1.1.1.1", "192.0.2.1", "2606:4700::1111"] {
            assert!(!is_local(other.parse().unwrap()), "{other}");
        }
        assert!(routes_to_itself(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn the_address_that_this_machine_speaks_from_is_its_own() {
        // Without a network there is nothing to check.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("1.1.1.1:9").is_ok() {
            assert!(is_local(socket.local_addr().unwrap().ip()));
        }
    }
}
