//! Settles jobs that have ended, in batches.
//!
//! Nothing waits for a batch to fill: what is there is settled at once, and whatever ends meanwhile is the
//! next batch. So an idle worker settles one job without delay and a busy one hundreds in one trip. Nothing waits for
//! a batch that takes long either, and one that fails is repeated beside those that come after it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_core::Error;
use tidemill_core::settle::Settlement;
use tidemill_core::store::Verdict;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, error};

use crate::batch::Batch;
use crate::deadline::{ANSWER, within};
use crate::event::Event;
use crate::outbox::{Ended, Fate, Note};
use crate::repeater::Repeater;
use crate::station::Station;

/// The most settlements in one trip.
const BATCH: usize = 512;

/// A second trip leaves while the first is under way only for so many: many small trips cost more than a
/// short wait.
const FULL: usize = 256;

/// So few may be the first of many that end in this very moment.
const FEW: usize = 64;

/// A trip that takes longer than this is not waited for: it may be stuck at a job that somebody's transaction has locked.
const SHORT: Duration = Duration::from_millis(100);

/// How many such trips there may be. A store that is away makes no more errors than these and the repeater do.
const LATE: usize = 3;

/// How long a trip that failed keeps its place, so that a store that is away is not asked all the time.
const REST: Duration = Duration::from_secs(1);

/// How many batches may wait for the repeater to look; it takes them in whenever it does.
const FAILED: usize = 16;

/// Where batches go that have failed.
type Failed = mpsc::Sender<(Batch, Error)>;

/// A batch under way for the first time.
type Trip<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Settles the jobs of all queues.
pub(crate) struct Completer {
    pub(crate) station: Arc<Station>,
}

impl Completer {
    pub(crate) fn new(station: Arc<Station>) -> Self {
        Self { station }
    }

    /// Settles until the outbox is closed and everything is settled.
    pub(crate) async fn run(self) {
        let (failed, repeats) = mpsc::channel(FAILED);
        tokio::join!(self.settle_new(failed), Repeater::new(&self, repeats).run());
    }

    async fn settle_new(&self, failed: Failed) {
        let (mut trips, mut late) = (FuturesUnordered::new(), FuturesUnordered::new());
        let mut open = true;
        loop {
            let enough = if trips.is_empty() { 1 } else { FULL };
            tokio::select! {
                biased;
                Some(trip) = trips.next(), if !trips.is_empty() => late.extend(trip),
                Some(()) = late.next(), if !late.is_empty() => {}
                batch = self.gather(enough), if open && trips.len() < 2 && late.len() < LATE => match batch {
                    Some(batch) => trips.push(in_short(Box::pin(self.try_first(batch, &failed)))),
                    None => open = false,
                },
                else => return,
            }
        }
    }

    async fn gather(&self, enough: usize) -> Option<Vec<Ended>> {
        let outbox = &self.station.outbox;
        if enough < FEW && outbox.waiting() < FEW {
            outbox.arrival().await;
            // Lets tasks that are ready to run end their jobs first. Costs nothing when there are none.
            tokio::task::yield_now().await;
        }
        outbox.take(enough, BATCH).await
    }

    /// Settles a batch, or leaves that to the repeater.
    async fn try_first(&self, ended: Vec<Ended>, failed: &Failed) {
        let batch = self.sort(ended);
        if let Err(failure) = self.settle(batch).await {
            // It is there for as long as this is.
            let _ = failed.send(failure).await;
            sleep(REST).await;
        }
    }

    /// Closes what needs no settling; returns what does.
    fn sort(&self, ended: Vec<Ended>) -> Batch {
        let (mut known, mut batch) = (Vec::new(), Batch::default());
        for Ended { fate, note } in ended {
            match fate {
                Fate::Settled(verdict) => known.push((note, Verdicts::new(verdict, false))),
                Fate::Settle(_) if is_lost(&note) => {
                    known.push((note, Verdicts::new(Verdict::LeaseLost, false)));
                }
                Fate::Settle(settlement) => batch.push(settlement, note),
            }
        }
        self.close(known);
        batch
    }

    /// Settles a batch as a whole; gives it back if the store cannot do so now.
    pub(crate) async fn settle(&self, mut batch: Batch) -> Result<(), (Batch, Error)> {
        if batch.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let verdicts = match self.try_settle(batch.settlements()).await {
            Ok(verdicts) => verdicts,
            Err(error) if is_about_a_job(&error) => self.settle_one_by_one(batch.settlements()).await,
            Err(error) => {
                if matches!(error, Error::Unanswered { .. }) {
                    batch.unknown_since.get_or_insert(begun);
                }
                return Err((batch, error));
            }
        };
        // A lease cannot run out within a beat. After a longer time another worker may have the job.
        let after_unknown = batch.unknown_since.is_some_and(|since| since.elapsed() < self.station.beat());
        let end = |(note, verdict)| (note, Verdicts::new(verdict, after_unknown));
        let mut in_doubt = batch.take_unknown(&verdicts);
        let known = verdicts.into_iter().filter(|verdict| *verdict != Verdict::Unknown);
        self.close(batch.into_notes().into_iter().zip(known).map(end).collect());
        if in_doubt.is_empty() {
            return Ok(());
        }
        in_doubt.unknown_since.get_or_insert(begun);
        let message = format!("a part of the store gave no answer about {} settlements", in_doubt.len());
        Err((in_doubt, Error::Unanswered { message, source: None }))
    }

    /// Finds out which settlement the store chokes on, so that the others are not held up by it.
    async fn settle_one_by_one(&self, settlements: &[Settlement]) -> Vec<Verdict> {
        let mut outage = self.station.outage("settling a job");
        let mut verdicts = Vec::with_capacity(settlements.len());
        while let Some(settlement) = settlements.get(verdicts.len()) {
            match self.try_settle(std::slice::from_ref(settlement)).await {
                Ok(verdict) if verdict == [Verdict::Unknown] => sleep(REST).await,
                Ok(verdict) => verdicts.extend(verdict.into_iter().take(1)),
                Err(error) if is_about_a_job(&error) => {
                    let job = &settlement.lease.job;
                    error!("job {job} cannot be settled, its lease will run out: {}", error.chain());
                    verdicts.push(Verdict::LeaseLost);
                }
                Err(error) => sleep(outage.failed(&error)).await,
            }
        }
        verdicts
    }

    async fn try_settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        let verdicts = within(ANSWER, "settle", self.station.store.settle(settlements)).await?;
        if verdicts.len() == settlements.len() {
            return Ok(verdicts);
        }
        let message = format!("{} verdicts on {} settlements", verdicts.len(), settlements.len());
        Err(Error::Unavailable { message, source: None })
    }

    /// Counts, tells and lets go.
    fn close(&self, ended: Vec<(Note, Verdicts)>) {
        let epochs: Vec<_> = ended.iter().map(|(note, _)| note.epoch).collect();
        let count = |(note, verdicts): (Note, Verdicts)| {
            let counters = &self.station.lanes[note.lane].counters;
            let verdict = verdicts.likely(&note);
            match verdict {
                Verdict::Accepted => counters.ended(note.ending),
                Verdict::LeaseLost | Verdict::Unknown => counters.lost(),
            }
            self.tell(&note, verdict);
            if let Some(assignment) = &note.assignment {
                // Whoever builds on what was settled has to know for certain.
                assignment.settled(verdicts.said);
            }
            note.assignment
        };
        // Counted before the lock is taken, so that it is held for letting go only.
        let assignments: Vec<_> = ended.into_iter().filter_map(count).collect();
        self.station.leases.release(assignments);
        self.station.outbox.settled(&epochs);
    }

    fn tell(&self, note: &Note, verdict: Verdict) {
        let Some(job) = &note.assignment else { return };
        if verdict == Verdict::LeaseLost {
            debug!(job = %job.lease.job, "the lease was lost; the settlement ({}) had no effect", note.ending);
        } else if let Some(events) = &self.station.events {
            let (id, kind) = (job.envelope.id().clone(), job.envelope.kind().clone());
            let queue = job.lease.queue.clone();
            // An error means that nobody listens any more.
            let _ = events.send(Event { job: id, kind, queue, outcome: note.ending, took: note.took });
        }
    }
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy)]
struct Verdicts {
    /// What the store said.
    said: Verdict,
    /// Whether an earlier trip got no answer, so short a time ago that the lease cannot have run out.
    after_unknown: bool,
}

impl Verdicts {
    fn new(said: Verdict, after_unknown: bool) -> Self {
        Self { said, after_unknown }
    }

    /// What most likely took place. A lease that is gone at the second trip, and of which the heartbeat has not heard
    /// that it was lost, was ended by the first.
    fn likely(self, note: &Note) -> Verdict {
        if self.after_unknown && !is_lost(note) { Verdict::Accepted } else { self.said }
    }
}

/// The trip, if it has not come back soon.
async fn in_short(mut trip: Trip<'_>) -> Option<Trip<'_>> {
    timeout(SHORT, &mut trip).await.is_err().then_some(trip)
}

fn is_lost(note: &Note) -> bool {
    note.assignment.as_ref().is_some_and(|assignment| assignment.stop.is_lost())
}

/// Whether an error is the fault of what was to be settled rather than of the store.
fn is_about_a_job(error: &Error) -> bool {
    matches!(error, Error::Invalid(_) | Error::NotFound(_) | Error::Corrupt(_))
}
