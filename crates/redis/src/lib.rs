//! Tidemill on Redis and Valkey: one server, a master behind Sentinels, or a Cluster.
//!
//! At-least-once queues are streams with one consumer group, at-most-once queues are lists, both
//! under the keys that `docs/redis-schema.md` documents. The hot path sends plain commands in
//! batches. Every operation that reads before it writes is a Lua script.

mod acl;
mod baseline;
mod chains;
mod clock;
mod connection;
mod error;
mod fleet;
mod inspect;
mod jobs;
mod options;
mod queues;
mod runs;
mod sentinels;
mod store;
mod tls;
mod url;
mod wake;

#[doc(hidden)]
pub use acl::worker_rules;
pub use baseline::baselines;
pub use options::RedisOptions;
pub use store::RedisStore;
pub use url::is_redis_url;
#[doc(hidden)]
pub use wake::Hint;
pub use wake::RedisTransport;
