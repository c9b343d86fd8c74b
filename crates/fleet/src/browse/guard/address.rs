//! What kind of address an address is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Who can be expected behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Anybody on the Internet.
    Public,
    /// This machine, or its network.
    Private,
    /// Nobody a page has business with: link-local (where clouds keep their credentials), multicast, reserved.
    Special,
}

/// The networks that are neither public nor private, by the registry of special-purpose addresses.
const SPECIAL: [(Ipv4Addr, u32); 10] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The private ones, those behind a carrier's translation included.
const PRIVATE: [(Ipv4Addr, u32); 5] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];

/// Parts of the global space of version 6 that lead elsewhere: to addresses of version 4 inside them, or nowhere.
const ELSEWHERE: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

impl Scope {
    /// What kind of address this is if it is one of this machine's own: a service that is open to this machine only may
    /// take whoever comes from, or to, its public address for this machine.
    pub(super) fn if_own(self) -> Self {
        if self == Self::Public { Self::Private } else { self }
    }

    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Scope {
    let is_in = |networks: &[(Ipv4Addr, u32)]| {
        networks.iter().any(|(network, bits)| within(address.into(), (*network).into(), *bits))
    };
    match () {
        () if is_in(&SPECIAL) => Scope::Special,
        () if is_in(&PRIVATE) => Scope::Private,
        () => Scope::Public,
    }
}

/// Of version 6 only the global unicast space is public.
fn of_v6(address: Ipv6Addr) -> Scope {
    let is_in = |network: Ipv6Addr, bits| within(address.into(), network.into(), bits);
    let is_global = is_in(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
    let is_unique_local = is_in(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7);
    match () {
        () if is_global && !ELSEWHERE.iter().any(|(network, bits)| is_in(*network, *bits)) => Scope::Public,
        () if is_unique_local || address.is_loopback() => Scope::Private,
        () => Scope::Special,
    }
}

/// Whether an address is in a network. Those of different versions never are.
pub(super) fn within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => (a.to_bits() ^ n.to_bits()).leading_zeros() >= bits.min(32),
        (IpAddr::V6(a), IpAddr::V6(n)) => (a.to_bits() ^ n.to_bits()).leading_zeros() >= bits.min(128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> Scope {
        Scope::of(text.parse().unwrap())
    }

    #[test]
    fn addresses_of_machines_and_their_networks_are_private() {
        let private = [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "::1",
            "fd00::1",
            "fc00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
        ];
        for text in private {
            assert_eq!(scope(text), Scope::Private, "{text}");
        }
    }

    #[test]
    fn link_local_multicast_and_reserved_addresses_are_special() {
        let special = [
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "fec0::1",
            "100::1",
        ];
        for text in special {
            assert_eq!(scope(text), Scope::Special, "{text}");
        }
    }

    #[test]
    fn a_public_address_of_this_machine_is_private_and_a_special_one_stays_special() {
        assert_eq!(scope("1.1.1.1").if_own(), Scope::Private);
        assert_eq!(scope("10.0.0.1").if_own(), Scope::Private);
        assert_eq!(scope("169.254.1.1").if_own(), Scope::Special);
    }

    #[test]
    fn the_rest_is_public() {
        for text in
            ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]
        {
            assert_eq!(scope(text), Scope::Public, "{text}");
        }
    }
}
