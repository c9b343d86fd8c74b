//! The context of a running job, as its handler sees it.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tidemill_core::store::Verdict;
use tidemill_core::transaction::TransactionClaim;
use tidemill_core::{Client, DeathReason, Envelope, HolderId, JobId, Kind, Queue, Timestamp};

use crate::handler::blockers::Blockers;
use crate::handler::fail::Fail;
use crate::leases::ClaimedJob;
use crate::shared::WorkerShared;

/// The job that a handler runs: its identity, its attempts, and whether it should stop. Cheap to
/// clone; may be moved into tasks that the handler starts.
#[derive(Clone)]
pub struct JobContext {
    job: Arc<ClaimedJob>,
    deadline: Option<Timestamp>,
    shared: Arc<WorkerShared>,
}

impl JobContext {
    pub(crate) fn new(job: Arc<ClaimedJob>, deadline: Option<Timestamp>, shared: Arc<WorkerShared>) -> Self {
        Self { job, deadline, shared }
    }

    /// The job's id. It is the same in every attempt, so it can serve as an idempotency key.
    pub fn id(&self) -> &JobId {
        self.envelope().id()
    }

    /// The id of the job's chain, which is the id of its first job.
    pub fn chain(&self) -> JobId {
        self.id().chain()
    }

    /// An id for a chain that this job starts. It is the same in every attempt for the same
    /// `number`, so a repeated attempt finds the chains of an earlier one instead of starting new
    /// ones.
    pub fn child_id(&self, number: usize) -> String {
        format!("{}.{}.{number}", self.chain(), self.id().step())
    }

    /// The results of the chains that this job waited for.
    ///
    /// # Errors
    /// Fails if the envelope's list of blockers is malformed.
    pub fn blockers(&self) -> Result<Blockers, Fail> {
        let blockers = self.envelope().blockers();
        blockers.map(Blockers).map_err(|error| Fail::dead(DeathReason::InvalidEnvelope, error))
    }

    /// The id of the worker that runs the job.
    pub fn worker(&self) -> &HolderId {
        &self.shared.worker
    }

    /// A client of the store, for enqueueing jobs from within a handler.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Begins the settlement of the job; from then on nothing stops it. `false` if it should stop.
    pub(crate) fn try_begin_settlement(&self) -> bool {
        self.job.stop.try_begin_settlement()
    }

    /// The claim on this job, for settling it inside a transaction.
    pub(crate) fn transaction_claim(&self) -> TransactionClaim {
        TransactionClaim {
            lease: self.job.lease.clone(),
            envelope: self.envelope().clone(),
            payload_limit: self.shared.client.payload_limit(),
        }
    }

    /// The kind of the job.
    pub fn kind(&self) -> &Kind {
        self.envelope().kind()
    }

    /// The queue that it was claimed from.
    pub fn queue(&self) -> &Queue {
        &self.job.lease.queue
    }

    /// The number of this attempt, starting at 1.
    pub fn attempt(&self) -> u32 {
        self.envelope().attempts().saturating_add(1)
    }

    /// The maximum number of attempts.
    pub fn max_attempts(&self) -> u32 {
        self.envelope().max_attempts()
    }

    /// When the attempt times out, by the store's clock; `None` without a timeout.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// Reports that the attempt is alive. A job with a heartbeat timeout fails the attempt when
    /// this is not called in time.
    pub fn heartbeat(&self) {
        let now = self.shared.store.clock().now();
        self.job.last_heartbeat_ms.store(now.0, Ordering::Relaxed);
    }

    /// Calls `callback` with the store's verdict on the end of this job. It is dropped if no
    /// verdict arrives.
    pub fn on_settled(&self, callback: impl FnOnce(Verdict) + Send + 'static) {
        let slot = &self.job.on_settled;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(callback));
    }

    /// The context of a job that runs inside this one, under the same lease. It exists in no store.
    pub fn nested(&self, envelope: Envelope, deadline: Option<Timestamp>) -> Self {
        let ClaimedJob { lease, queue_index, lease_index, .. } = &*self.job;
        let job = Arc::new(ClaimedJob::new(lease.clone(), envelope, *queue_index, *lease_index));
        Self { job, deadline, shared: self.shared.clone() }
    }

    /// The whole envelope, including fields that Tidemill does not know.
    pub fn envelope(&self) -> &Envelope {
        &self.job.envelope
    }

    /// Whether the handler should stop: the job was cancelled, its lease was lost, or the worker is
    /// shutting down.
    ///
    /// A handler that never calls this is dropped at its next `.await`. A handler that does gets
    /// the worker's [`cancel_grace`](crate::WorkerBuilder::cancel_grace) to clean up first.
    pub fn is_cancelled(&self) -> bool {
        self.job.stop.mark_watched();
        self.job.stop.reason().is_some()
    }

    /// Completes when the handler should stop; see [`is_cancelled`](Self::is_cancelled).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn cancelled(&self) {
        self.job.stop.mark_watched();
        self.job.stop.wait().await;
    }
}

impl AsRef<Client> for JobContext {
    fn as_ref(&self) -> &Client {
        self.client()
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (job, kind, attempt) = (self.id(), self.kind(), self.attempt());
        write!(f, "JobContext {{ job: {job}, kind: {kind}, attempt: {attempt} }}")
    }
}
