//! Finding leases that have run out: a script names the queues of a shard in which there may be some (`overdue`), and those are
//! looked at one by one.

use std::collections::HashMap;
use std::fmt;

use redis::{Pipeline, Value};
use tidemill_core::store::{Claimed, ExpiredLease, ExpiredLeases, ListExpiredParams, Page};
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue, Timestamp};

use super::overdue::read_member;
use super::stream::claimed;
use super::{SCRIPT_BYTES, ms};
use crate::connection::Call;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::keys::member;
use crate::connection::reply::{HELD, Trace, array, entries, int, ints, text};
use crate::error::{classify, is_no_group, odd_answer};
use crate::store::RedisStore;

/// One entry of XPENDING.
struct Pending {
    entry: String,
    consumer: String,
    idle: i64,
}

/// Where the next page begins: at a position in the first of these queues. Written as a line for the position and one for each
/// queue, `SHARD KIND NAME`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    position: Option<String>,
    queues: Vec<(u16, Queue)>,
}

/// A queue in a shard, and where to begin there.
struct Look<'a> {
    shard: u16,
    queue: &'a Queue,
    from: Option<String>,
    /// How long a lease is of which nothing is known; none, if that is not for this worker to say.
    unknown: Option<i64>,
    limit: usize,
}

impl RedisStore {
    pub(crate) async fn expired_leases(
        &self,
        expired: ListExpiredParams<'_>,
    ) -> Result<ExpiredLeases, Error> {
        let (mut place, times) = match &expired.cursor {
            None => self.overdue(&expired).await?,
            Some(cursor) => (
                Place::read(cursor).ok_or_else(|| Error::Invalid("not a cursor of ours".into()))?,
                Vec::new(),
            ),
        };
        while let Some((shard, queue)) = place.queues.first().cloned() {
            let page = self.expired_in(&expired, (shard, &queue), place.position.take()).await;
            let page = page.unwrap_or_else(|error| {
                tracing::debug!(%queue, shard, error = error.full_message(), "cannot look for expired leases");
                Page::default()
            });
            place.position = page.next;
            if place.position.is_none() {
                place.queues.remove(0);
            }
            if !page.items.is_empty() {
                let next = (!place.queues.is_empty()).then(|| place.to_string());
                return Ok(ExpiredLeases { leases: page.items, next, shard_times: times });
            }
        }
        Ok(ExpiredLeases { leases: Vec::new(), next: None, shard_times: times })
    }

    /// The queues in which there may be leases that have run out, and the time of each shard. A shard that fails is left out.
    async fn overdue(
        &self,
        expired: &ListExpiredParams<'_>,
    ) -> Result<(Place, Vec<(u16, Timestamp)>), Error> {
        let parts = self.each_shard(SHARD_TIMEOUT, |shard| self.overdue_in(shard, expired)).await;
        let (mut place, mut times) = (Place::default(), Vec::new());
        for (shard, (time, queues)) in parts.any()?.answers {
            times.push((shard, time));
            place.queues.extend(queues.into_iter().map(|queue| (shard, queue)));
        }
        Ok((place, times))
    }

    async fn expired_in(
        &self,
        expired: &ListExpiredParams<'_>,
        (shard, queue): (u16, &Queue),
        from: Option<String>,
    ) -> Result<Page<ExpiredLease>, Error> {
        let unknown = expired.queues.contains(queue).then(|| ms(expired.lease));
        let look = Look { shard, queue, from, unknown, limit: expired.limit };
        match queue.guarantee {
            Guarantee::AtLeastOnce => self.expired_entries(look).await,
            Guarantee::AtMostOnce => self.expired_locks(look).await,
        }
    }

    /// The server filters by the shortest lease there is; whose own is longer is filtered here.
    async fn expired_entries(&self, look: Look<'_>) -> Result<Page<ExpiredLease>, Error> {
        let Look { shard, queue, from, unknown, limit } = look;
        let leases = self.ask_leases(shard, queue).await?;
        let Some(shortest) = leases.values().copied().chain(unknown).min() else {
            return Ok(Page::default());
        };
        let start = from.map_or_else(|| "-".to_owned(), |position| format!("({position}"));
        let mut ask = redis::cmd("XPENDING");
        ask.arg(self.keys.target(shard, queue)).arg(self.group(queue)).arg("IDLE").arg(shortest);
        ask.arg(start).arg("+").arg(limit);
        let answer = match self.link.send(shard, &ask).await {
            Err(error) if is_no_group(&error) => return Ok(Page::default()),
            answer => answer.map_err(|error| classify("XPENDING", error))?,
        };
        let found: Vec<Pending> = array(answer)
            .and_then(|items| items.into_iter().map(pending).collect())
            .ok_or_else(|| odd_answer("XPENDING"))?;
        let next = (found.len() == limit).then(|| found.last().map(|last| last.entry.clone())).flatten();
        let lease =
            |pending: &Pending| leases.get(pending.consumer.trim_end_matches(HELD)).copied().or(unknown);
        let late = found.into_iter().filter(|entry| lease(entry).is_some_and(|lease| entry.idle >= lease));
        Ok(Page { items: self.holds(shard, queue, late.collect()).await?, next })
    }

    /// The length in ms of each worker's leases.
    async fn ask_leases(&self, shard: u16, queue: &Queue) -> Result<HashMap<String, i64>, Error> {
        let ask = redis::cmd("HGETALL").arg(self.keys.leases(shard, queue)).take();
        self.link.query(shard, &ask).await
    }

    async fn holds(&self, shard: u16, queue: &Queue, late: Vec<Pending>) -> Result<Vec<ExpiredLease>, Error> {
        let target = self.keys.target(shard, queue);
        let mut batch = Pipeline::new();
        for pending in &late {
            batch.cmd("XRANGE").arg(&target).arg(&pending.entry).arg(&pending.entry);
        }
        if late.is_empty() {
            return Ok(Vec::new());
        }
        let bodies = self.link.pipeline(shard, &batch).await.map_err(|error| classify("XRANGE", error))?;
        let mut holds = Vec::with_capacity(late.len());
        for (pending, body) in late.into_iter().zip(bodies) {
            match entries(body)?.pop() {
                Some(entry) => {
                    let started = !pending.consumer.ends_with(HELD);
                    holds.push(ExpiredLease {
                        claimed: claimed((queue, shard), entry, started),
                        holder: pending.consumer,
                    });
                }
                // Deleted by another program while it was pending: nothing is left but the mark.
                None => self.acknowledge(shard, queue, &pending.entry).await?,
            }
        }
        Ok(holds)
    }

    async fn acknowledge(&self, shard: u16, queue: &Queue, entry: &str) -> Result<(), Error> {
        let ack =
            redis::cmd("XACK").arg(self.keys.target(shard, queue)).arg(self.group(queue)).arg(entry).take();
        self.link.query::<i64>(shard, &ack).await.map(drop)
    }

    /// Ends pops whose worker has not come back in time. Returns how many there were.
    pub(super) async fn sweep_pops(&self, shard: u16, queue: &Queue, limit: usize) -> Result<u64, Error> {
        let keys = [self.keys.running(shard, queue), self.keys.takers(shard, queue)];
        let mut swept = 0;
        loop {
            let call = Call::new(&self.scripts.sweep_pops, &keys).arg(limit).arg(SCRIPT_BYTES);
            let [count, more] = ints(self.link.call(shard, call).await?, "sweep")?[..] else {
                return Err(odd_answer("sweep"));
            };
            swept += u64::try_from(count).unwrap_or(0);
            if more == 0 {
                return Ok(swept);
            }
        }
    }

    /// Jobs taken from a list whose lock has run out: their runner is gone, and so are they. Those that a dead worker has
    /// popped and not locked are made such first.
    async fn expired_locks(&self, look: Look<'_>) -> Result<Page<ExpiredLease>, Error> {
        let Look { shard, queue, from, limit, .. } = look;
        if from.is_none() {
            self.sweep_pops(shard, queue, limit).await?;
        }
        let cursor = from.unwrap_or_else(|| "0".to_owned());
        let running = self.keys.running(shard, queue);
        let scan = redis::cmd("HSCAN").arg(running).arg(cursor).arg("COUNT").arg(limit).take();
        let (next, found): (String, Vec<String>) = self.link.query(shard, &scan).await?;
        let traces: Vec<(JobId, Trace)> = found
            .chunks_exact(2)
            .filter_map(|pair| Some((JobId::new(&pair[0]).ok()?, Trace::read(pair[1].as_bytes())?)))
            .collect();
        let mut batch = Pipeline::new();
        for (job, _) in &traces {
            batch.cmd("EXISTS").arg(self.keys.lock(shard, queue, job));
        }
        let locked = if traces.is_empty() {
            Vec::new()
        } else {
            self.link.pipeline(shard, &batch).await.map_err(|error| classify("EXISTS", error))?
        };
        let gone = traces.into_iter().zip(locked).filter(|(_, locked)| int(locked) == Some(0));
        let items = gone.map(|((job, trace), _)| taken((queue, shard), job, trace)).collect();
        Ok(Page { items, next: (next != "0").then_some(next) })
    }
}

impl Place {
    fn read(cursor: &str) -> Option<Self> {
        let mut lines = cursor.lines();
        let position = Some(lines.next()?.to_owned()).filter(|position| !position.is_empty());
        let queue = |line: &str| {
            let (shard, member) = line.split_once(' ')?;
            Some((shard.parse().ok()?, read_member(member)?))
        };
        Some(Self { position, queues: lines.map(queue).collect::<Option<_>>()? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.position.as_deref().unwrap_or_default())?;
        self.queues.iter().try_for_each(|(shard, queue)| write!(f, "\n{shard} {}", member(queue)))
    }
}

/// A job that was taken from a list and whose lock is gone.
fn taken((queue, shard): (&Queue, u16), job: JobId, trace: Trace) -> ExpiredLease {
    let lease = Lease { queue: queue.clone(), job, shard, token: trace.token };
    ExpiredLease { claimed: Claimed::read(trace.envelope, trace.started, |_| lease), holder: trace.worker }
}

fn pending(item: Value) -> Option<Pending> {
    let mut parts = array(item)?.into_iter();
    let entry = text(parts.next()?)?;
    let consumer = text(parts.next()?)?;
    Some(Pending { entry, consumer, idle: int(&parts.next()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        let queue = |member| read_member(member).unwrap();
        let place =
            Place { position: Some("7-1".into()), queues: vec![(3, queue("s mail")), (0, queue("l a-b"))] };
        assert_eq!(Place::read(&place.to_string()), Some(place));
        assert_eq!(Place::read("x\ny"), None);
    }
}
