//! A table of the user's own, in the database that is also the store: what a chain's steps write there commits with
//! the steps, or not at all.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tidemill::postgres::tokio_postgres;
use tidemill::sqlite::rusqlite;

use crate::place::Place;

const MAKE: &str = "CREATE TABLE IF NOT EXISTS books (chain text NOT NULL, deed text NOT NULL)";

/// One thing that was written down: by which chain, and what it did.
pub type Line = (String, String);

/// Where the table is.
#[derive(Debug, Clone)]
pub enum Books {
    /// In the store's file.
    Sqlite(PathBuf),
    /// In the store's database.
    Postgres(String),
    /// Redis has no tables.
    Nowhere,
}

impl Books {
    /// The books of a store.
    pub fn of(place: &Place) -> Self {
        match place {
            Place::Sqlite(folder) => Self::Sqlite(folder.path().join("jobs.db")),
            Place::Postgres(_, database) => Self::Postgres(database.clone()),
            Place::Redis(_) | Place::Cluster(_) => Self::Nowhere,
        }
    }

    /// Makes the table.
    pub async fn make(&self) -> Result<()> {
        match self {
            Self::Sqlite(path) => rusqlite::Connection::open(path)?.execute_batch(MAKE)?,
            Self::Postgres(database) => connect(database).await?.batch_execute(MAKE).await?,
            Self::Nowhere => {}
        }
        Ok(())
    }

    /// Everything in it.
    pub async fn read(&self) -> Result<Vec<Line>> {
        const READ: &str = "SELECT chain, deed FROM books";
        match self {
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path)?;
                let mut read = connection.prepare(READ)?;
                let lines = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(lines.collect::<Result<_, _>>()?)
            }
            Self::Postgres(database) => {
                let rows = connect(database).await?.query(READ, &[]).await?;
                Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
            }
            Self::Nowhere => Ok(Vec::new()),
        }
    }
}

/// A connection of the user's own.
pub async fn connect(database: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(database, tokio_postgres::NoTls)
        .await
        .context("cannot connect to the user's own database")?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}
