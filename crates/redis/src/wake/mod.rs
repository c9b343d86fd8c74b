//! Wake-ups: the store's own subscription, and a transport for stores of other databases.

mod announcement;
mod channel;
mod command_connection;
mod hint;
mod listener;
mod outage_log;
mod own_hints;
mod publisher;
mod subscriber;
mod transport;
mod twins;

pub use hint::Hint;
pub(crate) use listener::{listen, queue_changed};
pub use transport::RedisTransport;
