//! The Redis store does what every store must do: on one server with the documented keys, as a user with the
//! least rights, and on a Cluster of three masters with eight shards.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "the name of a case is its documentation, and it fails by panicking"
)]

mod support;

mod one_server {
    use super::support::one_server as open;
    tidemill_testkit::conformance!(open);
}

/// As a user who may do what a worker needs and nothing else: no INFO, no CLIENT, no other keys or channels.
mod least_privileged {
    use super::support::least_privileged as open;
    tidemill_testkit::conformance!(open);
}

mod cluster {
    use super::support::cluster as open;
    tidemill_testkit::conformance!(open);
}
