//! Wake-ups: the store's own subscription, and a transport for stores of other databases.

mod channel;
mod channel_subscription;
mod command_connection;
mod listener;
mod outage_log;
mod own_hints;
mod publisher;
mod subscriber;
mod subscriptions;
mod transport;
mod twins;

pub(crate) use listener::WakeListener;
pub use transport::RedisTransport;
