//! What any process does for all: promoting due jobs, finding expired leases, removing traces.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Pipeline, Value};
use tidemill_core::store::{Claimed, Expired, Hold, Page, Promote, Promoted, Pruned};
use tidemill_core::{Delivery, Error, JobId, Lease, Queue, WorkerId};
use tokio::time::Instant;

use super::stream::{HELD, claimed};
use super::{SCRIPT_BYTES, ms};
use crate::chains::errand::{self, Errand};
use crate::damage::is_damage;
use crate::error::{classify, is_no_group, odd_answer};
use crate::keys::letter;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{Trace, array, entries, int, text};

/// A consumer that has read nothing for this long, and holds nothing, is gone.
const IDLE_CONSUMER_MS: u64 = 10 * 60 * 1000;

/// For how long the leases of a queue's workers are taken as known, when it comes to what to look for.
const LEASES_FOR: Duration = Duration::from_secs(10);

/// How many errands of a dead process one look at a shard carries on.
const ERRANDS: usize = 64;

/// How long one shard of several has for its part: the others are not to wait for it.
const SHARD_ANSWER: Duration = Duration::from_secs(3);

/// How soon a shard that did not answer is asked again.
const SHARD_AGAIN: Duration = Duration::from_secs(1);

/// One entry of XPENDING.
struct Pending {
    entry: String,
    consumer: String,
    idle: i64,
}

impl RedisStore {
    pub(crate) async fn promote_due(&self, promote: Promote<'_>) -> Result<Promoted, Error> {
        if self.keys.shards() == 1 {
            return self.promote_shard(0, &promote).await;
        }
        let one = async |shard| {
            let answer = tokio::time::timeout(SHARD_ANSWER, self.promote_shard(shard, &promote)).await;
            let message = || format!("shard {shard} did not promote within {SHARD_ANSWER:?}");
            answer.unwrap_or_else(|_| Err(Error::Unavailable { message: message(), source: None }))
        };
        let (mut all, mut failures, mut answers) = (Promoted::default(), Vec::new(), 0);
        for part in join_all((0..self.keys.shards()).map(one)).await {
            match part {
                Ok(part) => {
                    answers += 1;
                    all.moved += part.moved;
                    all.next = all.next.into_iter().chain(part.next).min();
                }
                Err(error) => failures.push(error),
            }
        }
        // What the other shards did has taken place. One that did not answer is asked again soon.
        match failures.pop() {
            Some(error) if answers == 0 => Err(error),
            Some(error) => {
                tracing::warn!(error = error.chain(), "one shard was not promoted");
                all.next = all.next.into_iter().chain([SHARD_AGAIN]).min();
                Ok(all)
            }
            None => Ok(all),
        }
    }

    async fn promote_shard(&self, shard: u16, promote: &Promote<'_>) -> Result<Promoted, Error> {
        let mut keys = vec![self.keys.jobs(shard), self.keys.errands(shard), self.keys.timers(shard)];
        // All queues share the script's bytes, so none may always be the first.
        let mut queues: Vec<&Queue> = promote.queues.iter().collect();
        let first = fastrand::usize(..queues.len().max(1));
        queues.rotate_left(first);
        for queue in &queues {
            keys.push(self.keys.target(shard, queue));
            keys.push(self.keys.scheduled(shard, queue));
        }
        let mut call = Call::new(&self.scripts.promote, &keys)
            .arg(promote.limit)
            .arg(SCRIPT_BYTES)
            .arg(ERRANDS)
            .arg(errand::GRACE_MS);
        for queue in queues {
            call.push(letter(queue));
            call.push(queue.name.as_str());
        }
        let odd = || odd_answer("promote");
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
        let mut rest = parts.split_off(parts.len().min(4));
        let [moved, next, alarm, damaged] = &parts[..] else { return Err(odd()) };
        let damaged = int(damaged).and_then(|count| usize::try_from(count).ok()).ok_or_else(odd)?;
        let errands = rest.split_off(damaged.min(rest.len()));
        rest.into_iter().filter_map(text).for_each(|what| self.complaints.once("promoting", &what));
        self.carry_on(shard, Errand::all(errands)).await;
        let count = |value| int(value).ok_or_else(odd);
        let promoted =
            Promoted { moved: u64::try_from(count(moved)?).unwrap_or(0), next: until(count(next)?) };
        let fired = match until(count(alarm)?) {
            Some(Duration::ZERO) => {
                self.unless_damaged("firing alarms", self.fire_alarms(shard, promote.limit).await)?
            }
            next => Promoted { moved: 0, next },
        };
        let next = promoted.next.into_iter().chain(fired.next).min();
        Ok(Promoted { moved: promoted.moved + fired.moved, next })
    }

    /// The cursor of a page is `shard:position`: one shard after the other.
    pub(crate) async fn expired_leases(&self, expired: Expired<'_>) -> Result<Page<Hold>, Error> {
        let (shard, position) = match &expired.cursor {
            None => (0, None),
            Some(cursor) => {
                parse_cursor(cursor).ok_or_else(|| Error::Invalid("not a cursor of ours".into()))?
            }
        };
        let page = match expired.queue.delivery {
            Delivery::AtLeastOnce => self.expired_entries(shard, position, &expired).await,
            Delivery::AtMostOnce => self.expired_locks(shard, position, &expired).await,
        };
        let mut page = match page {
            // Whoever claims from this queue says so.
            Err(error) if is_damage(&error) => Page::default(),
            page => page?,
        };
        page.next = match page.next {
            Some(position) => Some(format!("{shard}:{position}")),
            None if shard + 1 < self.keys.shards() => Some(format!("{}:", shard + 1)),
            None => None,
        };
        Ok(page)
    }

    /// The server filters by the shortest lease there is; whose own is longer is filtered here. An idle queue
    /// costs one command, because the leases are asked for every few looks only.
    async fn expired_entries(
        &self,
        shard: u16,
        from: Option<String>,
        expired: &Expired<'_>,
    ) -> Result<Page<Hold>, Error> {
        let (queue, target) = (expired.queue, self.keys.target(shard, expired.queue));
        let default = ms(expired.lease);
        let leases = self.leases_of(shard, queue).await?;
        let shortest = leases.values().copied().chain([default]).min().unwrap_or(default);
        let start = from.map_or_else(|| "-".to_owned(), |position| format!("({position}"));
        let mut ask = redis::cmd("XPENDING");
        ask.arg(&target)
            .arg(self.group(queue))
            .arg("IDLE")
            .arg(shortest)
            .arg(start)
            .arg("+")
            .arg(expired.limit);
        let answer = match self.link.send(shard, &ask).await {
            Err(error) if is_no_group(&error) => return Ok(Page::default()),
            answer => answer.map_err(|error| classify("XPENDING", error))?,
        };
        let found: Vec<Pending> = array(answer)
            .and_then(|items| items.into_iter().map(pending).collect())
            .ok_or_else(|| odd_answer("XPENDING"))?;
        let next =
            (found.len() == expired.limit).then(|| found.last().map(|last| last.entry.clone())).flatten();
        if found.is_empty() {
            return Ok(Page::default());
        }
        // Who may be robbed is decided by what is true now.
        let leases = self.ask_leases(shard, queue).await?;
        let lease = |pending: &Pending| leases.get(pending.consumer.trim_end_matches(HELD)).copied();
        let late = found.into_iter().filter(|entry| entry.idle >= lease(entry).unwrap_or(default)).collect();
        Ok(Page { items: self.holds(shard, queue, late).await?, next })
    }

    /// The lease of each worker, as it was a few seconds ago at most.
    async fn leases_of(&self, shard: u16, queue: &Queue) -> Result<Arc<HashMap<String, i64>>, Error> {
        let place = (queue.clone(), shard);
        let known = self.leases.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        if let Some((asked, leases)) = known
            && asked.elapsed() < LEASES_FOR
        {
            return Ok(leases);
        }
        let leases = Arc::new(self.ask_leases(shard, queue).await?);
        let fresh = (Instant::now(), leases.clone());
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).insert(place, fresh);
        Ok(leases)
    }

    async fn ask_leases(&self, shard: u16, queue: &Queue) -> Result<HashMap<String, i64>, Error> {
        let ask = redis::cmd("HGETALL").arg(self.keys.leases(shard, queue)).take();
        self.link.query(shard, &ask).await
    }

    async fn holds(&self, shard: u16, queue: &Queue, late: Vec<Pending>) -> Result<Vec<Hold>, Error> {
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
                    holds.push(Hold {
                        claimed: claimed((queue, shard), entry, started),
                        by: pending.consumer,
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

    /// Jobs taken from a list whose lock has run out: their runner is gone, and so are they.
    async fn expired_locks(
        &self,
        shard: u16,
        from: Option<String>,
        expired: &Expired<'_>,
    ) -> Result<Page<Hold>, Error> {
        let queue = expired.queue;
        if from.is_none() {
            let keys = [self.keys.running(shard, queue), self.keys.takers(shard, queue)];
            self.link.call(shard, Call::new(&self.scripts.sweep, &keys).arg(expired.limit)).await?;
        }
        let cursor = from.unwrap_or_else(|| "0".to_owned());
        let scan = redis::cmd("HSCAN")
            .arg(self.keys.running(shard, queue))
            .arg(cursor)
            .arg("COUNT")
            .arg(expired.limit)
            .take();
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

    pub(crate) async fn prune_traces(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        let mut pruned = Pruned::default();
        self.clock.set(self.link.time().await?);
        for queue in queues {
            for shard in 0..self.keys.shards() {
                let (removed, more) = self.unless_damaged("pruning", self.prune_queue(shard, queue).await)?;
                pruned.traces += removed;
                pruned.more |= more;
            }
        }
        for shard in 0..self.keys.shards() {
            pruned.traces += self.unless_damaged("repairing the index", self.repair_index(shard).await)?;
        }
        Ok(pruned)
    }

    /// Removes what is left over of a queue. Returns how much, and whether there may be more.
    async fn prune_queue(&self, shard: u16, queue: &Queue) -> Result<(u64, bool), Error> {
        if queue.delivery == Delivery::AtMostOnce {
            return Ok((self.remove_orphans(shard, queue).await?, false));
        }
        let (deleted, more) = self.delete_acknowledged(shard, queue).await?;
        Ok((deleted + self.remove_consumers((shard, queue), "").await?, more))
    }

    pub(crate) async fn remove_worker(&self, worker: &WorkerId, queues: &[Queue]) -> Result<(), Error> {
        for queue in queues.iter().filter(|queue| queue.delivery == Delivery::AtLeastOnce) {
            for shard in 0..self.keys.shards() {
                self.remove_consumers((shard, queue), worker.as_str()).await?;
            }
        }
        self.prepared
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .retain(|(_, _, prepared)| prepared != worker);
        self.remove_copies(worker).await
    }

    async fn remove_consumers(&self, (shard, queue): (u16, &Queue), worker: &str) -> Result<u64, Error> {
        let keys = [self.keys.target(shard, queue), self.keys.leases(shard, queue)];
        let call =
            Call::new(&self.scripts.leave, &keys).arg(self.group(queue)).arg(worker).arg(IDLE_CONSUMER_MS);
        let removed = int(&self.link.call(shard, call).await?);
        Ok(removed.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }
}

/// How long until something is due; a negative number if nothing is.
pub(crate) fn until(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// A job that was taken from a list and whose lock is gone.
fn taken((queue, shard): (&Queue, u16), job: JobId, trace: Trace) -> Hold {
    let lease = Lease { queue: queue.clone(), job, shard, token: trace.token };
    Hold { claimed: Claimed::read(trace.envelope, true, |_| lease), by: trace.worker }
}

fn pending(item: Value) -> Option<Pending> {
    let mut parts = array(item)?.into_iter();
    let entry = text(parts.next()?)?;
    let consumer = text(parts.next()?)?;
    Some(Pending { entry, consumer, idle: int(&parts.next()?)? })
}

fn parse_cursor(cursor: &str) -> Option<(u16, Option<String>)> {
    let (shard, position) = cursor.split_once(':')?;
    Some((shard.parse().ok()?, (!position.is_empty()).then(|| position.to_owned())))
}
