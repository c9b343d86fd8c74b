//! Redis deployments: behind Sentinels, over TLS, and by a Unix socket.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

mod failover;
mod scheduled;
mod tls;
mod unix;
mod work;
