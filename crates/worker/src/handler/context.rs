//! What a handler can know about the job it runs.

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

/// The job a handler is running: who it is, how often it was tried, and whether somebody wants it to stop.
/// Cheap to clone; may be moved into tasks the handler starts.
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

    /// The job's identity: the same in every attempt, so it can serve as an idempotency key.
    pub fn id(&self) -> &JobId {
        self.envelope().id()
    }

    /// The chain it belongs to: the id of its first job.
    pub fn chain(&self) -> JobId {
        self.id().chain()
    }

    /// An id for a chain that this job starts: the same in every attempt for the same `number`, so that an
    /// attempt that is repeated finds the chains of the one before instead of starting others.
    pub fn child_id(&self, number: usize) -> String {
        format!("{}.{}.{number}", self.chain(), self.id().step())
    }

    /// How the chains ended that this job waited for.
    pub fn blockers(&self) -> Result<Blockers, Fail> {
        let blockers = self.envelope().blockers();
        blockers.map(Blockers).map_err(|error| Fail::dead(DeathReason::InvalidEnvelope, error))
    }

    /// Who runs it.
    pub fn worker(&self) -> &HolderId {
        &self.shared.worker
    }

    /// The store's client, to make jobs from within a job.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Whether the job may end now; from then on nothing stops it.
    pub(crate) fn try_begin_settlement(&self) -> bool {
        self.job.stop.try_begin_settlement()
    }

    /// The claim on this job, for whatever ends it in a transaction.
    pub(crate) fn transaction_claim(&self) -> TransactionClaim {
        TransactionClaim {
            lease: self.job.lease.clone(),
            envelope: self.envelope().clone(),
            payload_limit: self.shared.client.payload_limit(),
        }
    }

    /// What the job does.
    pub fn kind(&self) -> &Kind {
        self.envelope().kind()
    }

    /// Where it was claimed.
    pub fn queue(&self) -> &Queue {
        &self.job.lease.queue
    }

    /// Which attempt this is: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.envelope().attempts().saturating_add(1)
    }

    /// How many attempts there are in all.
    pub fn max_attempts(&self) -> u32 {
        self.envelope().max_attempts()
    }

    /// When the attempt is given up, by the store's clock; `None` if it may take for ever.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// Says that the attempt is alive: one whose job has a heartbeat timeout is given up when it is silent for longer.
    pub fn heartbeat(&self) {
        let now = self.shared.store.clock().now();
        self.job.last_heartbeat_ms.store(now.0, Ordering::Relaxed);
    }

    /// Calls `tell` when the store has said whether it accepted the end of this job; drops it if that never comes out.
    pub fn on_settled(&self, callback: impl FnOnce(Verdict) + Send + 'static) {
        let slot = &self.job.on_settled;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(callback));
    }

    /// The context of a job that is run inside this one, under its lease: it exists in no store.
    pub fn nested(&self, envelope: Envelope, deadline: Option<Timestamp>) -> Self {
        let ClaimedJob { lease, queue_index, lease_index, .. } = &*self.job;
        let job = Arc::new(ClaimedJob::new(lease.clone(), envelope, *queue_index, *lease_index));
        Self { job, deadline, shared: self.shared.clone() }
    }

    /// The whole envelope, with fields Tidemill does not know.
    pub fn envelope(&self) -> &Envelope {
        &self.job.envelope
    }

    /// Whether the handler should stop: the job was cancelled, its lease was lost, or the worker is leaving.
    ///
    /// A handler that never asks is dropped at its next `.await`. One that asks is given the worker's
    /// [`cancel_grace`](crate::WorkerBuilder::cancel_grace) to wind up first.
    pub fn is_cancelled(&self) -> bool {
        self.job.stop.mark_watched();
        self.job.stop.reason().is_some()
    }

    /// Completes when the handler should stop; see [`is_cancelled`](Self::is_cancelled).
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
