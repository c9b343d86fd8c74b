//! Settles jobs that have ended, in batches.
//!
//! Nothing waits for a batch to fill: what is there is settled at once, and whatever ends meanwhile is the
//! next batch. So an idle worker settles one job without delay and a busy one hundreds in one trip.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_core::Error;
use tidemill_core::settle::Settlement;
use tidemill_core::store::Verdict;
use tracing::{debug, error};

use crate::deadline::{ANSWER, within};
use crate::event::Event;
use crate::outage::Outage;
use crate::outbox::{Ended, Fate, Note};
use crate::station::Station;

/// The most settlements in one trip.
const BATCH: usize = 512;

/// A second trip leaves while the first is under way only for so many: many small trips cost more than a
/// short wait.
const FULL: usize = 256;

/// So few may be the first of many that end in this very moment.
const FEW: usize = 64;

/// Settles the jobs of all queues.
pub(crate) struct Completer {
    station: Arc<Station>,
}

impl Completer {
    pub(crate) fn new(station: Arc<Station>) -> Self {
        Self { station }
    }

    /// Settles until the outbox is closed and empty.
    pub(crate) async fn run(self) {
        let mut trips = FuturesUnordered::new();
        let mut open = true;
        loop {
            let enough = if trips.is_empty() { 1 } else { FULL };
            tokio::select! {
                biased;
                Some(()) = trips.next(), if !trips.is_empty() => {}
                batch = self.gather(enough), if open && trips.len() < 2 => match batch {
                    Some(batch) => trips.push(self.settle(batch)),
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

    /// Settles a batch, however long it takes. Its leases are kept alive meanwhile.
    async fn settle(&self, batch: Vec<Ended>) {
        let jobs = batch.len();
        let (mut known, mut settlements, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for Ended { fate, note } in batch {
            match fate {
                Fate::Settled(verdict) => known.push((note, verdict)),
                Fate::Settle(_) if is_lost(&note) => known.push((note, Verdict::LeaseLost)),
                Fate::Settle(settlement) => {
                    settlements.push(settlement);
                    notes.push(note);
                }
            }
        }
        self.close(known);
        if !settlements.is_empty() {
            let verdicts = self.settle_surely(&settlements).await;
            self.close(notes.into_iter().zip(verdicts));
        }
        self.station.outbox.settled(jobs);
    }

    async fn settle_surely(&self, settlements: &[Settlement]) -> Vec<Verdict> {
        let mut outage = Outage::of("settling jobs");
        loop {
            match self.try_settle(settlements).await {
                Ok(verdicts) => {
                    outage.is_over();
                    return verdicts;
                }
                Err(error) if is_about_a_job(&error) => return self.settle_one_by_one(settlements).await,
                Err(error) => tokio::time::sleep(outage.failed(&error)).await,
            }
        }
    }

    /// Finds out which settlement the store chokes on, so that the others are not held up by it.
    async fn settle_one_by_one(&self, settlements: &[Settlement]) -> Vec<Verdict> {
        let mut outage = Outage::of("settling a job");
        let mut verdicts = Vec::with_capacity(settlements.len());
        while let Some(settlement) = settlements.get(verdicts.len()) {
            match self.try_settle(std::slice::from_ref(settlement)).await {
                Ok(verdict) => verdicts.extend(verdict.into_iter().take(1)),
                Err(error) if is_about_a_job(&error) => {
                    let job = &settlement.lease.job;
                    error!("job {job} cannot be settled, its lease will run out: {}", error.chain());
                    verdicts.push(Verdict::LeaseLost);
                }
                Err(error) => tokio::time::sleep(outage.failed(&error)).await,
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
    fn close(&self, ended: impl IntoIterator<Item = (Note, Verdict)>) {
        let count = |(note, verdict): (Note, Verdict)| {
            let counters = &self.station.lanes[note.lane].counters;
            match verdict {
                Verdict::Accepted => counters.ended(note.ending),
                Verdict::LeaseLost => counters.lost(),
            }
            self.tell(&note, verdict);
            note.assignment
        };
        // Counted before the lock is taken, so that it is held for letting go only.
        let assignments: Vec<_> = ended.into_iter().filter_map(count).collect();
        self.station.leases.release(assignments);
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

fn is_lost(note: &Note) -> bool {
    note.assignment.as_ref().is_some_and(|assignment| assignment.stop.is_lost())
}

/// Whether an error is the fault of what was to be settled rather than of the store.
fn is_about_a_job(error: &Error) -> bool {
    matches!(error, Error::Invalid(_) | Error::NotFound(_) | Error::Corrupt(_))
}
