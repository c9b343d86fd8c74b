//! Which addresses are this machine's own, whatever they look like.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Whether an address is one of this machine's: only those can a socket be bound to. Asked anew each time, because addresses
/// come and go. One that is translated on its way here is not known here.
pub(super) fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if !can_be_bound(address) {
        return false;
    }
    // Some machines let any address be bound. Theirs are told by where a packet to oneself would come from; none is sent.
    !can_be_bound(nobodys(address)) || comes_from_itself(address)
}

fn can_be_bound(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// An address of the same version that is kept for documents, and so nobody's.
fn nobodys(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    }
}

fn comes_from_itself(address: IpAddr) -> bool {
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
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["1.1.1.1", "192.0.2.1", "2606:4700::1111"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
        assert!(comes_from_itself(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn the_address_that_this_machine_speaks_from_is_its_own() {
        // Without a network there is none, and nothing to show.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("1.1.1.1:9").is_ok() {
            assert!(is_own(socket.local_addr().unwrap().ip()));
        }
    }
}
