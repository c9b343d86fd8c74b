//! The Redis store does what every store must do: on one server with the documented keys, and on a Cluster of
//! three masters with eight shards.

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

mod cluster {
    use super::support::cluster as open;
    tidemill_testkit::conformance!(open);
}
