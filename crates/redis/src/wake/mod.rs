//! Wake-ups: the store's own subscription, and a transport for stores that are elsewhere.

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

pub(crate) use listener::Waker;
pub use transport::RedisCourier;
