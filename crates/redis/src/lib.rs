//! Tidemill on Redis and Valkey: one server, a master behind Sentinels, or a Cluster.
//!
//! At-least-once queues are streams with one consumer group, at-most-once queues are lists, both under the
//! keys that `docs/redis-schema.md` documents. The hot path is plain commands in batches; whatever has to
//! look before it writes is a script.

mod breaker;
mod chains;
mod clock;
mod courier;
mod damage;
mod error;
mod fleet;
mod floor;
mod inspect;
mod jobs;
mod keys;
mod link;
mod options;
mod rights;
mod runs;
mod script;
mod search;
mod sentinels;
mod store;
mod suspects;
mod tls;
mod url;
mod value;
mod wake;

pub use courier::RedisCourier;
pub use floor::floors;
pub use options::Options;
#[doc(hidden)]
pub use rights::worker_rules;
pub use store::RedisStore;
pub use url::is_redis_url;
