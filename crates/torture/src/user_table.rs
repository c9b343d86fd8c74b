//! A table of the user in the store's database. Writes of a chain's steps commit together with the
//! steps, or not at all.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tidemill::postgres::tokio_postgres;
use tidemill::sqlite::rusqlite;

use crate::test_store::TestStore;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS user_steps (chain text NOT NULL, step text NOT NULL)";

/// One row: a chain, and what its step did.
pub type UserRow = (String, String);

/// The location of the table.
#[derive(Debug, Clone)]
pub enum UserTable {
    /// In the file of a SQLite store.
    Sqlite(PathBuf),
    /// In the database of a PostgreSQL store.
    Postgres(String),
    /// Redis has no tables.
    Unsupported,
}

impl UserTable {
    /// The table of this store.
    pub fn new(store: &TestStore) -> Self {
        match store {
            TestStore::Sqlite(folder) => Self::Sqlite(folder.path().join("jobs.db")),
            TestStore::Postgres(_, database) => Self::Postgres(database.clone()),
            TestStore::Redis(_) | TestStore::Cluster(_) => Self::Unsupported,
        }
    }

    /// Creates the table.
    pub async fn create(&self) -> Result<()> {
        match self {
            Self::Sqlite(path) => rusqlite::Connection::open(path)?.execute_batch(CREATE)?,
            Self::Postgres(database) => connect(database).await?.batch_execute(CREATE).await?,
            Self::Unsupported => {}
        }
        Ok(())
    }

    /// Reads all rows.
    pub async fn read(&self) -> Result<Vec<UserRow>> {
        const READ: &str = "SELECT chain, step FROM user_steps";
        match self {
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path)?;
                let mut read = connection.prepare(READ)?;
                let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(rows.collect::<Result<_, _>>()?)
            }
            Self::Postgres(database) => {
                let rows = connect(database).await?.query(READ, &[]).await?;
                Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
            }
            Self::Unsupported => Ok(Vec::new()),
        }
    }
}

/// Opens a connection of the user to the database.
pub async fn connect(database: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(database, tokio_postgres::NoTls)
        .await
        .context("cannot connect to the user's own database")?;
    // The task ends with its client.
    tokio::spawn(connection);
    Ok(client)
}
