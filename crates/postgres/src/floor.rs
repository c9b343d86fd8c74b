//! The floor under this store: raw rows in, raw rows out, in batches of 500.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tidemill_core::baseline::{Baseline, BaselineBatch, BaselineWork};
use tidemill_core::{Error, Guarantee};
use tokio::sync::{Mutex, Notify};
use tokio_postgres::types::Type;

use crate::connection::Connection;
use crate::error::classify;
use crate::migrate::migrate;
use crate::options::Options;
use crate::pool::Pool;
use crate::sql::{FLOOR_ACKNOWLEDGE, FLOOR_CLAIM, FLOOR_ENQUEUE, FLOOR_READ};
use crate::statements::Call;

/// The raw loops of this store.
pub async fn floors(options: Options) -> Result<Vec<Box<dyn Baseline>>, Error> {
    let pool = Pool::new(&options)?;
    migrate(&pool).await?;
    if pool.opener.is_pooled() {
        // It listens and prepares statements, which must not be left to others.
        return Ok(Vec::new());
    }
    let floor = Table {
        calls: TableCalls::of(&pool.opener.schema),
        pool,
        made: Mutex::new(false),
        called: Arc::default(),
        waited_for: AtomicBool::new(false),
        line: Mutex::default(),
    };
    Ok(vec![Box::new(floor)])
}

/// The statements of the raw loop.
struct TableCalls {
    enqueue: Call,
    claim: Call,
    acknowledge: Call,
    read: Call,
}

impl TableCalls {
    fn of(schema: &str) -> Self {
        Self {
            enqueue: Call::plain(&FLOOR_ENQUEUE, schema, &[Type::BYTEA_ARRAY]),
            claim: Call::plain(&FLOOR_CLAIM, schema, &[Type::INT8]),
            acknowledge: Call::plain(&FLOOR_ACKNOWLEDGE, schema, &[Type::INT8_ARRAY]),
            read: Call::plain(&FLOOR_READ, schema, &[]),
        }
    }
}

/// A table with a state and a payload, nothing more.
struct Table {
    pool: Pool,
    calls: TableCalls,
    /// Whether the table is there.
    made: Mutex<bool>,
    /// Rows were added.
    called: Arc<Notify>,
    /// Whether anybody waits: a loop that does not wait does not pay for notifications.
    waited_for: AtomicBool,
    /// The connection that listens.
    line: Mutex<Option<Connection>>,
}

impl Table {
    async fn make(&self) -> Result<(), Error> {
        let mut made = self.made.lock().await;
        if !*made {
            self.run(&format!(
                "CREATE TABLE IF NOT EXISTS \"{}\".floor (
                     id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                     state smallint NOT NULL DEFAULT 0, data bytea NOT NULL)",
                self.pool.opener.schema
            ))
            .await?;
            *made = true;
        }
        Ok(())
    }

    async fn run(&self, statement: &str) -> Result<(), Error> {
        let mut held = self.pool.hold().await?;
        let answer = held.connection()?.client.batch_execute(statement).await;
        held.judge("the raw loop", answer)
    }

    async fn listen(&self) -> Result<(), Error> {
        let mut line = self.line.lock().await;
        if line.is_none() {
            let called = self.called.clone();
            let heard = Box::new(move |_| called.notify_one());
            let connection = self.pool.opener.open(&self.pool.clock, heard).await?;
            let answer = connection.client.batch_execute("LISTEN tidemill_floor").await;
            answer.map_err(|error| classify("the raw loop", error))?;
            *line = Some(connection);
            self.waited_for.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn claim(&self, max: usize) -> Result<Vec<Bytes>, Error> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let rows = self.pool.send(&self.calls.claim, &[&max]).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect();
        self.pool.send(&self.calls.acknowledge, &[&ids]).await?;
        Ok(rows.iter().map(|row| Bytes::copy_from_slice(row.get("data"))).collect())
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
        BaselineBatch { enqueue: 500, claim: 500 }
    }

    async fn enqueue(&self, envelopes: &[Bytes]) -> Result<(), Error> {
        self.make().await?;
        let data: Vec<&[u8]> = envelopes.iter().map(|envelope| &**envelope).collect();
        self.pool.send(&self.calls.enqueue, &[&data]).await?;
        if self.waited_for.load(Ordering::Relaxed) {
            self.run("NOTIFY tidemill_floor").await?;
        }
        Ok(())
    }

    async fn claim(&self, max: usize) -> Result<usize, Error> {
        self.make().await?;
        Ok(self.claim(max).await?.len())
    }

    async fn wait(&self) -> Result<Option<Bytes>, Error> {
        self.make().await?;
        self.listen().await?;
        loop {
            if let Some(envelope) = self.claim(1).await?.pop() {
                return Ok(Some(envelope));
            }
            self.called.notified().await;
        }
    }

    async fn transact(&self, errand: BaselineWork) -> Result<bool, Error> {
        self.make().await?;
        let mut held = self.pool.hold().await?;
        let connection = held.connection()?;
        let work = async {
            connection.client.batch_execute("BEGIN").await?;
            match errand {
                BaselineWork::Read => drop(connection.query(&self.calls.read, &[]).await?),
                BaselineWork::Write => {
                    drop(connection.query(&self.calls.enqueue, &[&[&b"{}"[..]].as_slice()]).await?);
                }
            }
            connection.client.batch_execute("COMMIT").await
        };
        let answer = work.await;
        held.judge("the raw loop", answer)?;
        Ok(true)
    }

    async fn clear(&self) -> Result<(), Error> {
        let mut made = self.made.lock().await;
        *self.line.lock().await = None;
        self.waited_for.store(false, Ordering::Relaxed);
        self.run(&format!("DROP TABLE IF EXISTS \"{}\".floor", self.pool.opener.schema)).await?;
        *made = false;
        Ok(())
    }
}
