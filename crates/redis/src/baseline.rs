//! Baselines: a stream with XADD, XREADGROUP and XACK + XDEL, and a list with LPUSH and RPOP.
//!
//! A batch of plain commands can be interrupted half-way, which is fine for a loop that measures
//! moving bytes. Chains are compared with *transactions*, as in the SQL stores: there begin,
//! insert, commit; here MULTI, XADD, EXEC in one round trip. A chain also has an index entry and a
//! stored result; neither is part of this baseline. Reading and acknowledging are plain commands in
//! batches for both.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Pipeline;
use redis::aio::MultiplexedConnection;
use tidemill_core::baseline::{Baseline, BaselineBatch};
use tidemill_core::{Error, Guarantee};

use crate::connection::reply::{array, bytes, entry_id, read_group};
use crate::error::classify;
use crate::options::RedisOptions;

/// How long a read blocks.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The baselines of a server, with the smallest batches at which it is near its maximum.
pub async fn baselines(options: RedisOptions) -> Result<Vec<Box<dyn Baseline>>, Error> {
    if options.cluster {
        return Err(Error::Invalid("a Cluster has no single raw loop: measure one of its servers".into()));
    }
    let client = redis::Client::open(options.info.clone()).map_err(|error| classify("connecting", error))?;
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connect = || client.get_multiplexed_async_connection_with_config(&config);
    let mut loops: Vec<Box<dyn Baseline>> = Vec::new();
    for work in [BaselineKind::Stream, BaselineKind::List] {
        let shared = connect().await.map_err(|error| classify("connecting", error))?;
        let blocking = connect().await.map_err(|error| classify("connecting", error))?;
        let key = format!("{}floor:{}", options.namespace, work.name());
        loops.push(Box::new(RawBaseline { kind: work, key, shared, blocking }));
    }
    Ok(loops)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BaselineKind {
    Stream,
    List,
}

impl BaselineKind {
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
        }
    }
}

struct RawBaseline {
    kind: BaselineKind,
    key: String,
    shared: MultiplexedConnection,
    blocking: MultiplexedConnection,
}

impl RawBaseline {
    fn enqueue_pipeline(&self, envelopes: &[Bytes]) -> Pipeline {
        let mut batch = Pipeline::with_capacity(envelopes.len());
        match self.kind {
            BaselineKind::Stream => {
                for data in envelopes {
                    batch.cmd("XADD").arg(&self.key).arg("*").arg("data").arg(&data[..]).ignore();
                }
            }
            BaselineKind::List => {
                let push = batch.cmd("LPUSH").arg(&self.key);
                for data in envelopes {
                    push.arg(&data[..]);
                }
                push.ignore();
            }
        }
        batch
    }

    async fn send(&self, batch: &Pipeline) -> Result<(), Error> {
        batch.query_async(&mut self.shared.clone()).await.map_err(|error| classify("the raw loop", error))
    }

    async fn acknowledge(&self, ids: &[String]) -> Result<(), redis::RedisError> {
        let mut batch = Pipeline::new();
        batch.cmd("XACK").arg(&self.key).arg("raw").arg(ids).ignore();
        batch.cmd("XDEL").arg(&self.key).arg(ids).ignore();
        batch.query_async(&mut self.shared.clone()).await
    }

    fn read(&self, count: usize, block: Option<Duration>) -> redis::Cmd {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg("raw").arg("one").arg("COUNT").arg(count);
        if let Some(block) = block {
            read.arg("BLOCK").arg(u64::try_from(block.as_millis()).unwrap_or(u64::MAX));
        }
        read.arg("STREAMS").arg(&self.key).arg(">");
        read
    }
}

#[async_trait]
impl Baseline for RawBaseline {
    fn work(&self) -> &'static str {
        self.kind.name()
    }

    fn guarantee(&self) -> Guarantee {
        match self.kind {
            BaselineKind::Stream => Guarantee::AtLeastOnce,
            BaselineKind::List => Guarantee::AtMostOnce,
        }
    }

    fn batch(&self) -> BaselineBatch {
        BaselineBatch { enqueue: 100, claim: 64 }
    }

    async fn enqueue(&self, envelopes: &[Bytes]) -> Result<(), Error> {
        self.send(&self.enqueue_pipeline(envelopes)).await
    }

    async fn commit(&self, envelopes: &[Bytes]) -> Result<(), Error> {
        self.send(self.enqueue_pipeline(envelopes).atomic()).await
    }

    async fn claim(&self, max: usize) -> Result<usize, Error> {
        let raw = |error| classify("the raw loop", error);
        if self.kind == BaselineKind::List {
            let popped =
                redis::cmd("RPOP").arg(&self.key).arg(max).query_async(&mut self.shared.clone()).await;
            return Ok(array(popped.map_err(raw)?).unwrap_or_default().len());
        }
        let reply = self.read(max, None).query_async(&mut self.shared.clone()).await.map_err(raw)?;
        let ids: Vec<String> = read_group(reply)?.into_iter().map(|entry| entry_id(entry.token)).collect();
        if !ids.is_empty() {
            self.acknowledge(&ids).await.map_err(raw)?;
        }
        Ok(ids.len())
    }

    async fn wait(&self) -> Result<Option<Bytes>, Error> {
        let raw = |error| classify("the raw loop", error);
        let mut blocking = self.blocking.clone();
        if self.kind == BaselineKind::List {
            let pop = redis::cmd("BRPOP").arg(&self.key).arg(BLOCK_TIMEOUT.as_secs()).take();
            let reply = pop.query_async(&mut blocking).await.map_err(raw)?;
            return Ok(array(reply).unwrap_or_default().into_iter().nth(1).and_then(bytes));
        }
        let reply = self.read(1, Some(BLOCK_TIMEOUT)).query_async(&mut blocking).await.map_err(raw)?;
        let Some(entry) = read_group(reply)?.pop() else { return Ok(None) };
        self.acknowledge(&[entry_id(entry.token)]).await.map_err(raw)?;
        Ok(Some(entry.data))
    }

    async fn clear(&self) -> Result<(), Error> {
        let mut batch = Pipeline::new();
        batch.cmd("DEL").arg(&self.key).ignore();
        if self.kind == BaselineKind::Stream {
            batch.cmd("XGROUP").arg("CREATE").arg(&self.key).arg("raw").arg("0").arg("MKSTREAM").ignore();
        }
        self.send(&batch).await
    }
}
