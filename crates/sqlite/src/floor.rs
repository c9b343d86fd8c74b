//! The floor under this store: the cheapest durable loop on a SQLite table.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, TransactionBehavior};
use tidemill_core::baseline::{Baseline, BaselineBatch, BaselineWork};
use tidemill_core::{Error, Guarantee};

use crate::connection::open;
use crate::error::Failure;
use crate::options::Options;

/// The raw loops on this store: one, because both guarantees are the same table here.
pub async fn floors(options: Options) -> Result<Vec<Box<dyn Baseline>>, Error> {
    // The loop's table lies beside ours, in a file that is opened in the same way.
    let connection = Arc::new(Mutex::new(blocking(move || open(&options)).await?));
    Ok(vec![Box::new(Table { connection })])
}

struct Table {
    connection: Arc<Mutex<Connection>>,
}

impl Table {
    /// Runs `work` in one transaction.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Error> {
        let connection = self.connection.clone();
        blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(begin).map_err(Failure::from)?;
            let result = work(&transaction)?;
            transaction.commit().map_err(Failure::from)?;
            Ok(result)
        })
        .await
    }
}

#[async_trait]
impl Baseline for Table {
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
            connection.prepare_cached(include_str!("../sql/floor/make.sql"))?.execute([])?;
            let mut enqueue = connection.prepare_cached(include_str!("../sql/floor/enqueue.sql"))?;
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

    async fn transact(&self, errand: BaselineWork) -> Result<bool, Error> {
        let work = move |connection: &Connection| {
            match errand {
                BaselineWork::Read => {
                    connection.prepare_cached("SELECT 1")?.query_row([], |row| row.get::<_, i64>(0))?;
                }
                BaselineWork::Write => {
                    connection.prepare_cached(include_str!("../sql/floor/make.sql"))?.execute([])?;
                    let mut enqueue = connection.prepare_cached(include_str!("../sql/floor/enqueue.sql"))?;
                    enqueue.execute([&b"{}"[..]])?;
                }
            }
            Ok(true)
        };
        self.run(work).await
    }

    async fn clear(&self) -> Result<(), Error> {
        self.run(|connection| Ok(connection.execute_batch(include_str!("../sql/floor/clear.sql"))?)).await
    }
}

fn claim(connection: &Connection, max: usize) -> Result<Vec<(i64, Bytes)>, Failure> {
    let mut claim = connection.prepare_cached(include_str!("../sql/floor/claim.sql"))?;
    let rows = claim.query_map([max as i64], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?.into())))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn acknowledge(connection: &Connection, taken: &[(i64, Bytes)]) -> Result<(), Failure> {
    let mut acknowledge = connection.prepare_cached(include_str!("../sql/floor/acknowledge.sql"))?;
    for (seq, _) in taken {
        acknowledge.execute([seq])?;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::unavailable("the raw loop was cut short", error))?
}
