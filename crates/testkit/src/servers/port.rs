//! A search for free ports.

use std::net::{Ipv4Addr, TcpListener};

use super::ServerError;

/// Below the kernel's range for outgoing connections, so that a restarted server finds its port
/// free. Low enough for a cluster's bus, which is 10,000 above.
const PORT_RANGE: std::ops::Range<u16> = 12_000..22_000;

/// The distance between a cluster node's port and its bus port.
const CLUSTER_BUS_OFFSET: u16 = 10_000;

/// A port that is free now, as is its bus port.
pub(super) fn free() -> Result<u16, ServerError> {
    (0..1000)
        .map(|_| fastrand::u16(PORT_RANGE))
        .find(|&port| is_free(port) && is_free(port + CLUSTER_BUS_OFFSET))
        .ok_or_else(|| ServerError::new(format!("no free port in {PORT_RANGE:?}")))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
