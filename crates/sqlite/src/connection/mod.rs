//! The database threads: connections, requests and transactions.

mod batch;
mod disk_reserve;
pub(crate) mod open;
pub(crate) mod reader;
mod request;
mod savepoint;
mod thread;
pub(crate) mod writer;

pub(crate) use request::{Cost, Tx};
pub(crate) use savepoint::in_savepoint;
pub(crate) use thread::{DatabaseThread, ThreadMessage};
