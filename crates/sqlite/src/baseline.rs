//! The baseline of this store: the cheapest durable loop on a SQLite table, for benchmarks.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, TransactionBehavior};
use tidemill_core::baseline::{Baseline, BaselineBatch, BaselineWork};
use tidemill_core::{Error, Guarantee};

use crate::connection::open::open;
use crate::error::RequestError;
use crate::options::SqliteOptions;

/// The cheapest table that a durable queue can have: no names, no order except arrival, no index.
const CREATE_TABLE: &str = "
    CREATE TABLE IF NOT EXISTS tidemill_floor (seq INTEGER PRIMARY KEY, taken INTEGER NOT NULL
        DEFAULT 0, envelope BLOB NOT NULL)";

/// Inserts one envelope. A batch shares its transaction.
const ENQUEUE: &str = "INSERT INTO tidemill_floor (envelope) VALUES (?1)";

/// Drops the table of the baseline loop.
const DROP_TABLE: &str = "DROP TABLE IF EXISTS tidemill_floor";

/// Marks and reads the oldest rows. Claimed rows are deleted at once, so the scan is as short as
/// the batch.
const CLAIM: &str = "
    UPDATE tidemill_floor SET taken = 1 WHERE seq IN (SELECT seq FROM tidemill_floor WHERE taken = 0
        ORDER BY seq LIMIT ?1)
    RETURNING seq, envelope";

/// Deletes a claimed row. A batch shares its transaction.
const ACKNOWLEDGE: &str = "DELETE FROM tidemill_floor WHERE seq = ?1 AND taken = 1";

/// The baseline loops of this store. There is one, because both guarantees use the same table.
pub async fn baselines(options: SqliteOptions) -> Result<Vec<Box<dyn Baseline>>, Error> {
    // Its table is in the same file, which is opened in the same way.
    let connection = Arc::new(Mutex::new(blocking(move || open(&options)).await?));
    Ok(vec![Box::new(BaselineTable { connection })])
}

struct BaselineTable {
    connection: Arc<Mutex<Connection>>,
}

impl BaselineTable {
    /// Runs `work` in one transaction.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, Error> {
        let connection = self.connection.clone();
        blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(begin).map_err(RequestError::from)?;
            let result = work(&transaction)?;
            transaction.commit().map_err(RequestError::from)?;
            Ok(result)
        })
        .await
    }
}

#[async_trait]
impl Baseline for BaselineTable {
    fn work(&self) -> &'static str {
        "table"
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    fn batch(&self) -> BaselineBatch {
        BaselineBatch { enqueue: 256, claim: 256 }
    }

    async fn enqueue(&self, envelopes: &[Bytes]) -> Result<(), Error> {
        let envelopes = envelopes.to_vec();
        let work = move |connection: &Connection| {
            connection.prepare_cached(CREATE_TABLE)?.execute([])?;
            let mut enqueue = connection.prepare_cached(ENQUEUE)?;
            for envelope in &envelopes {
                enqueue.execute([&envelope[..]])?;
            }
            Ok(())
        };
        self.run(work).await
    }

    async fn claim(&self, max: usize) -> Result<usize, Error> {
        let taken = self.run(move |connection| claim(connection, max)).await?;
        let count = taken.len();
        self.run(move |connection| acknowledge(connection, &taken)).await?;
        Ok(count)
    }

    async fn wait(&self) -> Result<Option<Bytes>, Error> {
        Ok(None)
    }

    async fn transact(&self, work: BaselineWork) -> Result<bool, Error> {
        let run = move |connection: &Connection| {
            match work {
                BaselineWork::Read => {
                    connection.prepare_cached("SELECT 1")?.query_row([], |row| row.get::<_, i64>(0))?;
                }
                BaselineWork::Write => {
                    connection.prepare_cached(CREATE_TABLE)?.execute([])?;
                    let mut enqueue = connection.prepare_cached(ENQUEUE)?;
                    enqueue.execute([&b"{}"[..]])?;
                }
            }
            Ok(true)
        };
        self.run(run).await
    }

    async fn clear(&self) -> Result<(), Error> {
        self.run(|connection| Ok(connection.execute_batch(DROP_TABLE)?)).await
    }
}

fn claim(connection: &Connection, max: usize) -> Result<Vec<(i64, Bytes)>, RequestError> {
    let mut claim = connection.prepare_cached(CLAIM)?;
    let rows = claim.query_map([max as i64], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?.into())))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn acknowledge(connection: &Connection, taken: &[(i64, Bytes)]) -> Result<(), RequestError> {
    let mut acknowledge = connection.prepare_cached(ACKNOWLEDGE)?;
    for (seq, _) in taken {
        acknowledge.execute([seq])?;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::unavailable("the baseline loop was interrupted", error))?
}
