//! The table of leases that this worker holds, and the claimed jobs in it: running, buffered, or
//! waiting to be settled.
//!
//! One mutex is enough: it is locked once per claimed batch, settled batch and heartbeat, never per
//! job.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::store::Verdict;
use tidemill_core::{Envelope, JobId, Lease};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The leases that the heartbeat extends.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    table: Mutex<LeaseTable>,
}

#[derive(Debug, Default)]
struct LeaseTable {
    entries: Vec<Option<Arc<ClaimedJob>>>,
    free_indexes: Vec<usize>,
}

impl Leases {
    /// Adds claimed jobs, whose leases are known not to expire before `held_until`.
    pub(crate) fn insert(
        &self,
        queue_index: usize,
        claimed: impl IntoIterator<Item = (Lease, Envelope)>,
        held_until: Option<Instant>,
    ) -> Vec<Arc<ClaimedJob>> {
        let mut table = self.lock();
        let insert = |(lease, envelope)| {
            let job = table.insert(queue_index, lease, envelope);
            job.extend_held_until(held_until);
            job
        };
        claimed.into_iter().map(insert).collect()
    }

    /// Removes jobs that are settled or lost.
    pub(crate) fn remove(&self, jobs: impl IntoIterator<Item = Arc<ClaimedJob>>) {
        let mut table = self.lock();
        for job in jobs {
            table.entries[job.lease_index] = None;
            table.free_indexes.push(job.lease_index);
        }
    }

    /// The jobs whose leases to extend. A lost lease stays lost, so it is left out.
    pub(crate) fn held(&self) -> Vec<Arc<ClaimedJob>> {
        let table = self.lock();
        let held = table.entries.iter().flatten();
        held.filter(|job| !job.stop.is_lost()).cloned().collect()
    }

    /// Every lease of a queue in the table, whatever its state.
    pub(crate) fn of_queue(&self, queue_index: usize) -> HashSet<Lease> {
        let table = self.lock();
        let entries = table.entries.iter().flatten().filter(|job| job.queue_index == queue_index);
        entries.map(|job| job.lease.clone()).collect()
    }

    /// The jobs among `jobs` whose leases to extend. Scans the whole table: this is rare, and an
    /// index would cost every job something.
    pub(crate) fn held_of(&self, jobs: &HashSet<JobId>) -> Vec<Arc<ClaimedJob>> {
        let mut held = self.held();
        held.retain(|job| jobs.contains(&job.lease.job));
        held
    }

    /// Those of `jobs` that have been neither settled nor lost since.
    pub(crate) fn still_held(&self, jobs: &[Arc<ClaimedJob>]) -> Vec<Arc<ClaimedJob>> {
        let table = self.lock();
        let is_held = |job: &&Arc<ClaimedJob>| {
            let entries = table.entries[job.lease_index].as_ref();
            entries.is_some_and(|entries| Arc::ptr_eq(entries, job)) && !job.stop.is_lost()
        };
        jobs.iter().filter(is_held).cloned().collect()
    }

    /// Whether this worker holds `job`.
    pub(crate) fn contains(&self, job: &JobId) -> bool {
        self.lock().entries.iter().flatten().any(|held| held.lease.job == *job)
    }

    /// Asks every handler to stop because the worker shuts down.
    pub(crate) fn stop_all(&self) {
        self.lock().entries.iter().flatten().for_each(|job| job.stop.request(StopReason::WorkerStopping));
    }

    pub(crate) fn len(&self) -> usize {
        let table = self.lock();
        table.entries.len() - table.free_indexes.len()
    }

    fn lock(&self) -> MutexGuard<'_, LeaseTable> {
        // No code under the lock can panic half-way through a change.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseTable {
    fn insert(&mut self, queue_index: usize, lease: Lease, envelope: Envelope) -> Arc<ClaimedJob> {
        let lease_index = self.free_indexes.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let job = Arc::new(ClaimedJob::new(lease, envelope, queue_index, lease_index));
        self.entries[lease_index] = Some(job.clone());
        job
    }
}

/// A claimed job, from the claim until the store has accepted its settlement.
pub(crate) struct ClaimedJob {
    /// The lease to settle it with.
    pub(crate) lease: Lease,
    /// The job itself.
    pub(crate) envelope: Envelope,
    /// The index of its queue in the worker.
    pub(crate) queue_index: usize,
    /// Its index in the lease table.
    pub(crate) lease_index: usize,
    /// The stop request to its handler.
    pub(crate) stop: StopSignal,
    /// The last heartbeat of the handler, in milliseconds of the store's clock; 0 before the first.
    pub(crate) last_heartbeat_ms: AtomicI64,
    /// Called with the verdict on its settlement. Dropped without a call if no verdict arrives.
    pub(crate) on_settled: Mutex<Option<SettledCallback>>,
    /// Until when the lease is known to be held: the start of the last call that the store has
    /// answered, plus the lease. `None` if no answer is known.
    held_until: Mutex<Option<Instant>>,
}

/// A callback for the verdict on a settlement.
pub(crate) type SettledCallback = Box<dyn FnOnce(Verdict) + Send>;

impl ClaimedJob {
    pub(crate) fn new(lease: Lease, envelope: Envelope, queue_index: usize, lease_index: usize) -> Self {
        let (last_heartbeat_ms, on_settled) = (AtomicI64::new(0), Mutex::default());
        Self {
            lease,
            envelope,
            queue_index,
            lease_index,
            stop: StopSignal::default(),
            last_heartbeat_ms,
            on_settled,
            held_until: Mutex::default(),
        }
    }

    /// Records that the lease does not expire before `until`.
    pub(crate) fn extend_held_until(&self, until: Option<Instant>) {
        let mut held_until = self.held_until.lock().unwrap_or_else(PoisonError::into_inner);
        *held_until = until.max(*held_until);
    }

    /// Whether no other worker can have taken the job by now.
    pub(crate) fn is_known_held(&self) -> bool {
        let held_until = *self.held_until.lock().unwrap_or_else(PoisonError::into_inner);
        held_until.is_some_and(|until| Instant::now() < until)
    }

    /// Calls the callback, if there is one.
    pub(crate) fn settled(&self, verdict: Verdict) {
        let on_settled = self.on_settled.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(on_settled) = on_settled {
            on_settled(verdict);
        }
    }
}

impl fmt::Debug for ClaimedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Why a handler should stop. Later variants override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopReason {
    /// The worker shuts down, and the job is handed back.
    WorkerStopping = 1,
    /// The job was cancelled.
    Cancelled = 2,
    /// Another worker may have the job, and nothing that the handler does counts any more.
    LeaseLost = 3,
}

/// A stop request to a running handler. Part of the claimed job, so that it costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    reason: AtomicU8,
    watched: AtomicBool,
    /// The job's end is being committed or settled: it can no longer be stopped, and a missing
    /// lease is not a loss.
    settling: AtomicBool,
    changed: Notify,
}

impl StopSignal {
    pub(crate) fn request(&self, reason: StopReason) {
        if self.is_settling() {
            return;
        }
        self.reason.fetch_max(reason as u8, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        match self.reason.load(Ordering::Acquire) {
            0 => None,
            1 => Some(StopReason::WorkerStopping),
            2 => Some(StopReason::Cancelled),
            _ => Some(StopReason::LeaseLost),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.reason() == Some(StopReason::LeaseLost)
    }

    /// Marks the job as settling, because the handler's transaction is being committed with the
    /// job's end. Nothing stops it from then on. `false` if it was asked to stop before.
    pub(crate) fn try_begin_settlement(&self) -> bool {
        self.settling.store(true, Ordering::SeqCst);
        self.reason().is_none_or(|reason| reason == StopReason::WorkerStopping)
    }

    /// Marks the handler as ended.
    pub(crate) fn mark_ended(&self) {
        self.settling.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_settling(&self) -> bool {
        self.settling.load(Ordering::SeqCst)
    }

    /// Records that the handler watches for stop requests, so it gets time to clean up.
    pub(crate) fn mark_watched(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(crate) async fn wait(&self) -> StopReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the check, so that a request in between is not missed.
            changed.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            changed.await;
        }
    }
}
