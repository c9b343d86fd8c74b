//! Connections: how they are opened, pooled, and used for statements.

mod connector;
mod pool;
mod pooler;
mod statements;
mod tls;
mod user_connections;

pub(crate) use connector::{Connection, Connector, Params, TypedParams};
pub(crate) use pool::{Pool, PooledConnection, with_timeout};
pub(crate) use statements::{StatementCall, StatementCalls, install};
pub(crate) use user_connections::UserConnection;
