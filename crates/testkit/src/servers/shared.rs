//! One server of each kind per test process, started on first use. Tests use separate namespaces or
//! databases, and never pause or kill a shared server.

use std::sync::OnceLock;

use super::{Postgres, Redis, RedisCluster, ServerError};

/// The Redis server that all tests of this process share.
pub fn shared_redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| running(Redis::start()))
}

/// The Redis Cluster that all tests of this process share.
pub fn shared_cluster() -> &'static RedisCluster {
    static SERVER: OnceLock<RedisCluster> = OnceLock::new();
    SERVER.get_or_init(|| running(RedisCluster::start()))
}

/// The PostgreSQL server that all tests of this process share.
pub fn shared_postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| running(Postgres::start()))
}

/// A server that cannot be started fails the test.
fn running<T>(started: Result<T, ServerError>) -> T {
    started.unwrap_or_else(|error| panic!("{error}"))
}
