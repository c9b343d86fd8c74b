//! The baseline of this store: raw rows in, raw rows out, in batches of 500, for benchmarks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tidemill_core::baseline::{Baseline, BaselineBatch, BaselineWork};
use tidemill_core::{Error, Guarantee};
use tokio::sync::{Mutex, Notify};
use tokio_postgres::types::Type;

use crate::connection::{Connection, Pool, StatementCall};
use crate::error::classify;
use crate::migrate::migrate;
use crate::options::PostgresOptions;
use crate::sql::{BASELINE_ACKNOWLEDGE, BASELINE_CLAIM, BASELINE_ENQUEUE, BASELINE_READ};

/// The baseline loops of this store.
pub async fn baselines(options: PostgresOptions) -> Result<Vec<Box<dyn Baseline>>, Error> {
    let pool = Pool::new(&options)?;
    migrate(&pool).await?;
    if pool.connector.is_pooled() {
        // It listens and prepares statements, which must not be left for other clients.
        return Ok(Vec::new());
    }
    let table = BaselineTable {
        calls: BaselineCalls::new(&pool.connector.schema),
        pool,
        created: Mutex::new(false),
        inserted: Arc::default(),
        has_waiter: AtomicBool::new(false),
        listener: Mutex::default(),
    };
    Ok(vec![Box::new(table)])
}

/// The statements of the baseline loop.
struct BaselineCalls {
    enqueue: StatementCall,
    claim: StatementCall,
    acknowledge: StatementCall,
    read: StatementCall,
}

impl BaselineCalls {
    fn new(schema: &str) -> Self {
        Self {
            enqueue: StatementCall::plain(&BASELINE_ENQUEUE, schema, &[Type::BYTEA_ARRAY]),
            claim: StatementCall::plain(&BASELINE_CLAIM, schema, &[Type::INT8]),
            acknowledge: StatementCall::plain(&BASELINE_ACKNOWLEDGE, schema, &[Type::INT8_ARRAY]),
            read: StatementCall::plain(&BASELINE_READ, schema, &[]),
        }
    }
}

/// A table with a state and a payload, nothing more.
struct BaselineTable {
    pool: Pool,
    calls: BaselineCalls,
    /// Whether the table exists.
    created: Mutex<bool>,
    /// Notified when rows are added.
    inserted: Arc<Notify>,
    /// Whether there is a waiter: a loop without one does not pay for notifications.
    has_waiter: AtomicBool,
    /// The connection that listens.
    listener: Mutex<Option<Connection>>,
}

impl BaselineTable {
    async fn create(&self) -> Result<(), Error> {
        let mut created = self.created.lock().await;
        if !*created {
            self.run(&format!(
                "CREATE TABLE IF NOT EXISTS \"{}\".floor (
                     id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                     state smallint NOT NULL DEFAULT 0, data bytea NOT NULL)",
                self.pool.connector.schema
            ))
            .await?;
            *created = true;
        }
        Ok(())
    }

    async fn run(&self, statement: &str) -> Result<(), Error> {
        let mut held = self.pool.acquire().await?;
        let answer = held.connection()?.client.batch_execute(statement).await;
        held.check("the baseline loop", answer)
    }

    async fn listen(&self) -> Result<(), Error> {
        let mut listener = self.listener.lock().await;
        if listener.is_none() {
            let inserted = self.inserted.clone();
            let on_notification = Box::new(move |_| inserted.notify_one());
            let connection = self.pool.connector.open(&self.pool.clock, on_notification).await?;
            let answer = connection.client.batch_execute("LISTEN tidemill_floor").await;
            answer.map_err(|error| classify("the baseline loop", error))?;
            *listener = Some(connection);
            self.has_waiter.store(true, Ordering::Relaxed);
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
impl Baseline for BaselineTable {
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
        self.create().await?;
        let data: Vec<&[u8]> = envelopes.iter().map(|envelope| &**envelope).collect();
        self.pool.send(&self.calls.enqueue, &[&data]).await?;
        if self.has_waiter.load(Ordering::Relaxed) {
            self.run("NOTIFY tidemill_floor").await?;
        }
        Ok(())
    }

    async fn claim(&self, max: usize) -> Result<usize, Error> {
        self.create().await?;
        Ok(self.claim(max).await?.len())
    }

    async fn wait(&self) -> Result<Option<Bytes>, Error> {
        self.create().await?;
        self.listen().await?;
        loop {
            if let Some(envelope) = self.claim(1).await?.pop() {
                return Ok(Some(envelope));
            }
            self.inserted.notified().await;
        }
    }

    async fn transact(&self, work: BaselineWork) -> Result<bool, Error> {
        self.create().await?;
        let mut held = self.pool.acquire().await?;
        let connection = held.connection()?;
        let transaction = async {
            connection.client.batch_execute("BEGIN").await?;
            match work {
                BaselineWork::Read => drop(connection.query(&self.calls.read, &[]).await?),
                BaselineWork::Write => {
                    drop(connection.query(&self.calls.enqueue, &[&[&b"{}"[..]].as_slice()]).await?);
                }
            }
            connection.client.batch_execute("COMMIT").await
        };
        let answer = transaction.await;
        held.check("the baseline loop", answer)?;
        Ok(true)
    }

    async fn clear(&self) -> Result<(), Error> {
        let mut created = self.created.lock().await;
        *self.listener.lock().await = None;
        self.has_waiter.store(false, Ordering::Relaxed);
        self.run(&format!("DROP TABLE IF EXISTS \"{}\".floor", self.pool.connector.schema)).await?;
        *created = false;
        Ok(())
    }
}
