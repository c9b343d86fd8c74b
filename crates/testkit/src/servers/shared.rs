//! One server of each kind per test process, started when the first test wants it. Tests keep apart by namespace
//! or database, and never pause or kill what they share.

use std::sync::OnceLock;

use super::{Error, Postgres, Redis, RedisCluster};

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

/// A test without its server has failed, and says so.
fn running<T>(started: Result<T, Error>) -> T {
    started.unwrap_or_else(|error| panic!("{error}"))
}
