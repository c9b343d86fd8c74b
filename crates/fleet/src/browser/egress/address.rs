//! Classification of IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// Who is reachable at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressScope {
    /// Anyone on the Internet.
    Public,
    /// This machine or its network.
    Private,
    /// Nothing a page needs: link-local (cloud credentials), multicast, reserved.
    Special,
}

/// Networks that are neither public nor private, from the IANA special-purpose registry.
const SPECIAL_NETWORKS: [Ipv4Net; 10] = [
    v4([0, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// Private networks, including carrier-grade NAT.
const PRIVATE_NETWORKS: [Ipv4Net; 5] = [
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
];

/// Parts of the global IPv6 space that embed IPv4 addresses or lead nowhere.
const NON_PUBLIC_GLOBAL_NETWORKS: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

/// The only public space of IPv6.
const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const UNIQUE_LOCAL: Ipv6Net = v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7);

const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), bits)
}

impl AddressScope {
    /// The scope of an address of this machine. A service that trusts this machine may also trust
    /// its public address.
    pub(super) fn as_local(self) -> Self {
        if self == Self::Public { Self::Private } else { self }
    }

    pub(super) fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => scope_v4(address),
            IpAddr::V6(address) => scope_v6(address),
        }
    }
}

fn scope_v4(address: Ipv4Addr) -> AddressScope {
    let is_in = |networks: &[Ipv4Net]| networks.iter().any(|network| network.contains(&address));
    match () {
        () if is_in(&SPECIAL_NETWORKS) => AddressScope::Special,
        () if is_in(&PRIVATE_NETWORKS) => AddressScope::Private,
        () => AddressScope::Public,
    }
}

fn scope_v6(address: Ipv6Addr) -> AddressScope {
    let is_in = |networks: &[Ipv6Net]| networks.iter().any(|network| network.contains(&address));
    match () {
        () if is_in(&[GLOBAL_UNICAST]) && !is_in(&NON_PUBLIC_GLOBAL_NETWORKS) => AddressScope::Public,
        () if is_in(&[UNIQUE_LOCAL]) || address.is_loopback() => AddressScope::Private,
        () => AddressScope::Special,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> AddressScope {
        AddressScope::from_address(text.parse().unwrap())
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
            assert_eq!(scope(text), AddressScope::Private, "{text}");
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
            assert_eq!(scope(text), AddressScope::Special, "{text}");
        }
    }

    #[test]
    fn a_public_address_of_this_machine_is_private_and_a_special_one_stays_special() {
        assert_eq!(scope("1.1.1.1").as_local(), AddressScope::Private);
        assert_eq!(scope("10.0.0.1").as_local(), AddressScope::Private);
        assert_eq!(scope("169.254.1.1").as_local(), AddressScope::Special);
    }

    #[test]
    fn the_rest_is_public() {
        for text in
            ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]
        {
            assert_eq!(scope(text), AddressScope::Public, "{text}");
        }
    }
}
