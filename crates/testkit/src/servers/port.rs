//! Finding a port nobody uses.

use std::net::{Ipv4Addr, TcpListener};

use super::Error;

/// Below what the kernel hands out to outgoing connections, so that a server that is restarted finds its port
/// free; and low enough for a cluster's bus, which is 10,000 above.
const RANGE: std::ops::Range<u16> = 12_000..22_000;

/// A cluster node's second port is this much above its first.
const BUS: u16 = 10_000;

/// A port that is free now, together with the bus port above it.
pub(super) fn free() -> Result<u16, Error> {
    (0..1000)
        .map(|_| fastrand::u16(RANGE))
        .find(|&port| is_free(port) && is_free(port + BUS))
        .ok_or_else(|| Error::new(format!("no free port in {RANGE:?}")))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
