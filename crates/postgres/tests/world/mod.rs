//! Shared by these tests: opening stores, and reading the database without them.

// Every test file uses a part of this, and a failed setup is a failed test.
#![allow(dead_code, clippy::unwrap_used)]

use tidemill_core::chain::JobLinks;
use tidemill_core::store::{Due, NewJob};
use tidemill_core::{JobId, Queue, QueueName};
use tidemill_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Opens a store with a small pool: a test's server is shared by many.
pub(crate) async fn connect(url: &str) -> PostgresStore {
    let options = PostgresOptions { connections: 4, ..PostgresOptions::parse(url).unwrap() };
    PostgresStore::connect(options).await.unwrap()
}

/// The at-least-once queue of this name.
pub(crate) fn queue(name: &str) -> Queue {
    Queue::at_least_once(QueueName::new(name).unwrap())
}

/// A job that keeps its result.
pub(crate) fn chain() -> NewJob {
    let id = JobId::generate();
    let envelope = format!(r#"{{"job_id":"{id}","task_type":"t","keep_result_ms":60000}}"#);
    let links = JobLinks::default();
    NewJob { id, envelope: envelope.into(), due: Due::Now, tracked: true, generated_id: true, links }
}

/// A connection of a user's own, with a user's settings.
pub(crate) async fn session(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs statements without the store. Returns the rows as text, an empty text for NULL.
pub(crate) async fn query(url: &str, statements: &str) -> Vec<Vec<String>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let messages = client.simple_query(statements).await.unwrap();
    drop(client);
    driver.await.unwrap().unwrap();
    let text = |row: &tokio_postgres::SimpleQueryRow, column| row.get(column).unwrap_or_default().to_owned();
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|column| text(row, column)).collect()),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}
