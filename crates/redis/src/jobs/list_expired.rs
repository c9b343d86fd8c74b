//! Listing expired leases: the script `overdue` returns the queues of a shard that may have some,
//! and each of them is scanned.

use std::collections::HashMap;
use std::fmt;

use redis::{Pipeline, Value};
use tidemill_core::store::{Claimed, ExpiredLease, ExpiredLeases, ListExpiredParams, Page};
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue, Timestamp};

use super::overdue::parse_queue_member;
use super::stream::claimed;
use super::{MAX_SCRIPT_BYTES, ms};
use crate::connection::ScriptCall;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::keys::queue_member;
use crate::connection::reply::{HELD_SUFFIX, RunningEntry, array, entries, int, ints, text};
use crate::error::{classify, is_no_group, unexpected_reply};
use crate::store::RedisStore;

/// One entry of XPENDING.
struct PendingEntry {
    entry: String,
    consumer: String,
    idle: i64,
}

/// Cursor of the next page: a position in the first of these queues. Encoded as one line for the
/// position and one for each queue, `SHARD KIND NAME`.
#[derive(Debug, Default, PartialEq, Eq)]
struct ExpiredCursor {
    position: Option<String>,
    queues: Vec<(u16, Queue)>,
}

/// A scan of one queue in one shard.
struct QueueScan<'a> {
    shard: u16,
    queue: &'a Queue,
    from: Option<String>,
    /// The assumed lease of consumers without one; none if the caller does not serve the queue.
    unknown: Option<i64>,
    limit: usize,
}

impl RedisStore {
    pub(crate) async fn expired_leases(
        &self,
        expired: ListExpiredParams<'_>,
    ) -> Result<ExpiredLeases, Error> {
        let (mut cursor_state, times) = match &expired.cursor {
            None => self.overdue_queues(&expired).await?,
            Some(cursor) => (
                ExpiredCursor::parse(cursor).ok_or_else(|| Error::Invalid("invalid cursor".into()))?,
                Vec::new(),
            ),
        };
        while let Some((shard, queue)) = cursor_state.queues.first().cloned() {
            let page = self.expired_in(&expired, (shard, &queue), cursor_state.position.take()).await;
            let page = page.unwrap_or_else(|error| {
                tracing::debug!(%queue, shard, error = error.full_message(), "cannot look for expired leases");
                Page::default()
            });
            cursor_state.position = page.next;
            if cursor_state.position.is_none() {
                cursor_state.queues.remove(0);
            }
            if !page.items.is_empty() {
                let next = (!cursor_state.queues.is_empty()).then(|| cursor_state.to_string());
                return Ok(ExpiredLeases { leases: page.items, next, shard_times: times });
            }
        }
        Ok(ExpiredLeases { leases: Vec::new(), next: None, shard_times: times })
    }

    /// The queues that may have expired leases, and the time of each shard. Skips shards that fail.
    async fn overdue_queues(
        &self,
        expired: &ListExpiredParams<'_>,
    ) -> Result<(ExpiredCursor, Vec<(u16, Timestamp)>), Error> {
        let parts = self.each_shard(SHARD_TIMEOUT, |shard| self.overdue_in(shard, expired)).await;
        let (mut cursor_state, mut times) = (ExpiredCursor::default(), Vec::new());
        for (shard, (time, queues)) in parts.any()?.replies {
            times.push((shard, time));
            cursor_state.queues.extend(queues.into_iter().map(|queue| (shard, queue)));
        }
        Ok((cursor_state, times))
    }

    async fn expired_in(
        &self,
        expired: &ListExpiredParams<'_>,
        (shard, queue): (u16, &Queue),
        from: Option<String>,
    ) -> Result<Page<ExpiredLease>, Error> {
        let unknown = expired.queues.contains(queue).then(|| ms(expired.lease));
        let scan = QueueScan { shard, queue, from, unknown, limit: expired.limit };
        match queue.guarantee {
            Guarantee::AtLeastOnce => self.expired_entries(scan).await,
            Guarantee::AtMostOnce => self.expired_locks(scan).await,
        }
    }

    /// The server filters by the shortest lease; longer ones are filtered here.
    async fn expired_entries(&self, scan: QueueScan<'_>) -> Result<Page<ExpiredLease>, Error> {
        let QueueScan { shard, queue, from, unknown, limit } = scan;
        let leases = self.worker_leases(shard, queue).await?;
        let Some(shortest) = leases.values().copied().chain(unknown).min() else {
            return Ok(Page::default());
        };
        let start = from.map_or_else(|| "-".to_owned(), |position| format!("({position}"));
        let mut command = redis::cmd("XPENDING");
        command.arg(self.keys.target(shard, queue)).arg(self.group(queue)).arg("IDLE").arg(shortest);
        command.arg(start).arg("+").arg(limit);
        let reply = match self.connections.send(shard, &command).await {
            Err(error) if is_no_group(&error) => return Ok(Page::default()),
            reply => reply.map_err(|error| classify("XPENDING", error))?,
        };
        let found: Vec<PendingEntry> = array(reply)
            .and_then(|items| items.into_iter().map(parse_pending).collect())
            .ok_or_else(|| unexpected_reply("XPENDING"))?;
        let next = (found.len() == limit).then(|| found.last().map(|last| last.entry.clone())).flatten();
        let lease = |pending: &PendingEntry| {
            leases.get(pending.consumer.trim_end_matches(HELD_SUFFIX)).copied().or(unknown)
        };
        let expired_entries =
            found.into_iter().filter(|entry| lease(entry).is_some_and(|lease| entry.idle >= lease));
        Ok(Page { items: self.expired_leases_of(shard, queue, expired_entries.collect()).await?, next })
    }

    /// The lease of each worker in ms.
    async fn worker_leases(&self, shard: u16, queue: &Queue) -> Result<HashMap<String, i64>, Error> {
        let command = redis::cmd("HGETALL").arg(self.keys.leases(shard, queue)).take();
        self.connections.query(shard, &command).await
    }

    async fn expired_leases_of(
        &self,
        shard: u16,
        queue: &Queue,
        expired_entries: Vec<PendingEntry>,
    ) -> Result<Vec<ExpiredLease>, Error> {
        let target = self.keys.target(shard, queue);
        let mut batch = Pipeline::new();
        for pending in &expired_entries {
            batch.cmd("XRANGE").arg(&target).arg(&pending.entry).arg(&pending.entry);
        }
        if expired_entries.is_empty() {
            return Ok(Vec::new());
        }
        let bodies =
            self.connections.pipeline(shard, &batch).await.map_err(|error| classify("XRANGE", error))?;
        let mut holds = Vec::with_capacity(expired_entries.len());
        for (pending, body) in expired_entries.into_iter().zip(bodies) {
            match entries(body)?.pop() {
                Some(entry) => {
                    let started = !pending.consumer.ends_with(HELD_SUFFIX);
                    holds.push(ExpiredLease {
                        claimed: claimed((queue, shard), entry, started),
                        holder: pending.consumer,
                    });
                }
                // Another program deleted it while it was pending: only the pending mark is left.
                None => self.acknowledge(shard, queue, &pending.entry).await?,
            }
        }
        Ok(holds)
    }

    async fn acknowledge(&self, shard: u16, queue: &Queue, entry: &str) -> Result<(), Error> {
        let ack =
            redis::cmd("XACK").arg(self.keys.target(shard, queue)).arg(self.group(queue)).arg(entry).take();
        self.connections.query::<i64>(shard, &ack).await.map(drop)
    }

    /// Expires pops that their workers have not confirmed. Returns how many.
    pub(super) async fn sweep_pops(&self, shard: u16, queue: &Queue, limit: usize) -> Result<u64, Error> {
        let keys = [self.keys.running(shard, queue), self.keys.takers(shard, queue)];
        let mut swept = 0;
        loop {
            let call = ScriptCall::new(&self.scripts.sweep_pops, &keys).arg(limit).arg(MAX_SCRIPT_BYTES);
            let [count, more] = ints(self.connections.call(shard, call).await?, "sweep_pops")?[..] else {
                return Err(unexpected_reply("sweep_pops"));
            };
            swept += u64::try_from(count).unwrap_or(0);
            if more == 0 {
                return Ok(swept);
            }
        }
    }

    /// List jobs whose lock has expired: their worker is gone. Pops of dead workers are expired
    /// first.
    async fn expired_locks(&self, scan: QueueScan<'_>) -> Result<Page<ExpiredLease>, Error> {
        let QueueScan { shard, queue, from, limit, .. } = scan;
        if from.is_none() {
            self.sweep_pops(shard, queue, limit).await?;
        }
        let cursor = from.unwrap_or_else(|| "0".to_owned());
        let running = self.keys.running(shard, queue);
        let scan = redis::cmd("HSCAN").arg(running).arg(cursor).arg("COUNT").arg(limit).take();
        let (next, found): (String, Vec<String>) = self.connections.query(shard, &scan).await?;
        let running: Vec<(JobId, RunningEntry)> = found
            .chunks_exact(2)
            .filter_map(|pair| Some((JobId::new(&pair[0]).ok()?, RunningEntry::parse(pair[1].as_bytes())?)))
            .collect();
        let mut batch = Pipeline::new();
        for (job, _) in &running {
            batch.cmd("EXISTS").arg(self.keys.lock(shard, queue, job));
        }
        let locked = if running.is_empty() {
            Vec::new()
        } else {
            self.connections.pipeline(shard, &batch).await.map_err(|error| classify("EXISTS", error))?
        };
        let gone = running.into_iter().zip(locked).filter(|(_, locked)| int(locked) == Some(0));
        let items = gone.map(|((job, entry), _)| expired_lock((queue, shard), job, entry)).collect();
        Ok(Page { items, next: (next != "0").then_some(next) })
    }
}

impl ExpiredCursor {
    fn parse(cursor: &str) -> Option<Self> {
        let mut lines = cursor.lines();
        let position = Some(lines.next()?.to_owned()).filter(|position| !position.is_empty());
        let queue = |line: &str| {
            let (shard, member) = line.split_once(' ')?;
            Some((shard.parse().ok()?, parse_queue_member(member)?))
        };
        Some(Self { position, queues: lines.map(queue).collect::<Option<_>>()? })
    }
}

impl fmt::Display for ExpiredCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.position.as_deref().unwrap_or_default())?;
        self.queues.iter().try_for_each(|(shard, queue)| write!(f, "\n{shard} {}", queue_member(queue)))
    }
}

/// The expired lease of a list job.
fn expired_lock((queue, shard): (&Queue, u16), job: JobId, entry: RunningEntry) -> ExpiredLease {
    let lease = Lease { queue: queue.clone(), job, shard, token: entry.token };
    ExpiredLease { claimed: Claimed::read(entry.envelope, entry.started, |_| lease), holder: entry.worker }
}

fn parse_pending(item: Value) -> Option<PendingEntry> {
    let mut parts = array(item)?.into_iter();
    let entry = text(parts.next()?)?;
    let consumer = text(parts.next()?)?;
    Some(PendingEntry { entry, consumer, idle: int(&parts.next()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        let queue = |member| parse_queue_member(member).unwrap();
        let cursor_state = ExpiredCursor {
            position: Some("7-1".into()),
            queues: vec![(3, queue("s mail")), (0, queue("l a-b"))],
        };
        assert_eq!(ExpiredCursor::parse(&cursor_state.to_string()), Some(cursor_state));
        assert_eq!(ExpiredCursor::parse("x\ny"), None);
    }
}
