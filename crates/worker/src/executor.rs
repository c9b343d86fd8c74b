//! Runs jobs: route, poll, attend, decide, hand over.
//!
//! A task per job would cost more than many a job itself. So jobs of a kind whose first poll has proven short
//! share a task: it polls each once, and only a job that is still pending then gets a task of its own. A kind
//! that is slow to return from its first poll never shares, so it cannot hold up its siblings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::settle::{Change, DecideContext, Settlement, decide};
use tidemill_core::{Backoff, Envelope, Kind, Outcome};
use tokio_util::task::TaskTracker;

use crate::attempt::{AttemptLimits, first_poll, run_to_end, stop_result};
use crate::completer::queue::{EndedJob, Epoch, PendingSettlement, SettlementState};
use crate::event::EventKind;
use crate::failure_log::FailedAttempt;
use crate::handler::AttemptFuture;
use crate::handler::AttemptResult;
use crate::handler::context::JobContext;
use crate::handler::registry::{HandlerIndex, RegisteredHandler, Registry};
use crate::leases::ClaimedJob;
use crate::queue_slots::QueueSlots;
use crate::shared::WorkerShared;
use crate::unknown_kinds::UnknownKinds;

/// A first poll shorter than this may share a task: less than what a task of its own would cost in cache
/// misses, times the chunk still well under a millisecond.
const MAX_SHARED_FIRST_POLL: Duration = Duration::from_micros(20);

/// How many jobs share a task. Small enough that a claimed batch spreads over all cores.
const MAX_CHUNK_JOBS: usize = 32;

/// A single poll longer than this sends the rest of the chunk elsewhere.
const MAX_CHUNK_POLL: Duration = Duration::from_millis(1);

/// How long a job whose worker has died before waits at most for others to be settled: it holds a slot meanwhile.
const CRASHED_JOB_WAIT: Duration = Duration::from_secs(5);

/// How long a job rests at first, and at the longest, that this worker has no handler for: another may know it.
const UNKNOWN_KIND_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// A job and its handler.
type RoutedJob = (Arc<ClaimedJob>, HandlerIndex);

/// Runs the jobs of all queues.
pub(crate) struct Executor {
    shared: Arc<WorkerShared>,
    registry: Registry,
    /// Owns every task that runs a handler.
    tasks: TaskTracker,
    unknown_kinds: UnknownKinds,
}

impl Executor {
    pub(crate) fn new(shared: Arc<WorkerShared>, registry: Registry) -> Self {
        Self { shared, registry, tasks: TaskTracker::new(), unknown_kinds: UnknownKinds::default() }
    }

    /// What it can run: see [`Registry::kinds`].
    pub(crate) fn kinds(&self) -> (Vec<Kind>, bool) {
        self.registry.kinds()
    }

    /// The tasks that run handlers.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Runs jobs of one lane, which has a slot occupied for each.
    pub(crate) fn dispatch(
        self: &Arc<Self>,
        slots: &Arc<QueueSlots>,
        jobs: impl IntoIterator<Item = Arc<ClaimedJob>>,
    ) {
        let mut chunk = Vec::new();
        for job in jobs {
            let route = self.registry.find(job.envelope.kind());
            if job.envelope.crashes() > 0 {
                self.tasks.spawn(self.clone().run_after_crash(slots.clone(), (job, route)));
                continue;
            }
            if !self.may_share_task(route) {
                self.spawn(slots, vec![(job, route)]);
                continue;
            }
            chunk.push((job, route));
            if chunk.len() == MAX_CHUNK_JOBS {
                self.spawn(slots, std::mem::take(&mut chunk));
            }
        }
        if !chunk.is_empty() {
            self.spawn(slots, chunk);
        }
    }

    fn may_share_task(&self, route: HandlerIndex) -> bool {
        self.registry.get(route).is_none_or(|handler| handler.first_poll_time.is_under(MAX_SHARED_FIRST_POLL))
    }

    fn spawn(self: &Arc<Self>, slots: &Arc<QueueSlots>, chunk: Vec<RoutedJob>) {
        self.tasks.spawn(self.clone().run(slots.clone(), chunk));
    }

    /// Runs a job whose worker has died before: not while others that ended before it came still wait to be settled. If
    /// it takes this worker along too, they would count a crash that is not theirs, come back beside it, and
    /// in the end die with it. Those that end later are not waited for: on a busy worker there is always one.
    async fn run_after_crash(self: Arc<Self>, slots: Arc<QueueSlots>, job: RoutedJob) {
        let _ = tokio::time::timeout(CRASHED_JOB_WAIT, self.shared.settlement_queue.wait_for_earlier_jobs())
            .await;
        self.run(slots, vec![job]).await;
    }

    /// Runs a chunk in this task; what is pending after its first poll moves to a task of its own.
    async fn run(self: Arc<Self>, slots: Arc<QueueSlots>, chunk: Vec<RoutedJob>) {
        let is_single = chunk.len() == 1;
        let mut ended = Vec::with_capacity(chunk.len());
        let mut rest = chunk.into_iter();
        let mut begun = Instant::now();
        while let Some((job, route)) = rest.next() {
            match self.start(job, route, begun) {
                FirstPoll::Done(job) => ended.push(job),
                FirstPoll::Pending(running) if is_single => return self.run_to_end(slots, running).await,
                FirstPoll::Pending(running) => {
                    drop(self.tasks.spawn(self.clone().run_to_end(slots.clone(), running)))
                }
            }
            let now = Instant::now();
            if now - begun > MAX_CHUNK_POLL && rest.len() > 0 {
                self.dispatch(&slots, rest.by_ref().map(|(job, _)| job));
            }
            begun = now;
        }
        self.queue_settlements(&slots, ended).await;
    }

    /// Takes a job through its first poll.
    fn start(&self, job: Arc<ClaimedJob>, route: HandlerIndex, begun: Instant) -> FirstPoll {
        let Some(handler) = self.registry.get(route) else {
            self.unknown_kinds.log(job.envelope.kind());
            let outcome = postpone_unknown_kind(&job.envelope);
            return FirstPoll::Done(self.decide_end(job, None, outcome.into(), Duration::ZERO));
        };
        if let Some(reason) = job.stop.reason() {
            return FirstPoll::Done(self.decide_end(
                job,
                Some(handler),
                stop_result(reason, None),
                Duration::ZERO,
            ));
        }
        let timeout = job.envelope.timeout().or(handler.timeout);
        let deadline = timeout.map(|timeout| self.shared.store.clock().now().after(timeout));
        let first =
            first_poll(|| handler.handler.call(JobContext::new(job.clone(), deadline, self.shared.clone())));
        let elapsed = begun.elapsed();
        handler.first_poll_time.record(elapsed);
        match first {
            Ok(outcome) => FirstPoll::Done(self.decide_end(job, Some(handler), outcome, elapsed)),
            Err(attempt) => FirstPoll::Pending(PendingAttempt { job, route, begun, timeout, attempt }),
        }
    }

    /// Sees a pending job through to its end.
    async fn run_to_end(self: Arc<Self>, slots: Arc<QueueSlots>, running: PendingAttempt) {
        let PendingAttempt { job, route, begun, timeout, attempt } = running;
        let (clock, cancel_grace) = (self.shared.store.clock(), self.shared.config.cancel_grace);
        let outcome = run_to_end(attempt, &job, AttemptLimits { clock, timeout, cancel_grace }).await;
        let ended = self.decide_end(job, self.registry.get(route), outcome, begun.elapsed());
        self.queue_settlements(&slots, vec![ended]).await;
    }

    /// Gives a job back that did not get to run.
    pub(crate) fn hand_back(&self, job: Arc<ClaimedJob>) -> PendingSettlement {
        self.decide_end(job, None, Outcome::HandedBack.into(), Duration::ZERO)
    }

    /// Decides what becomes of a job.
    fn decide_end(
        &self,
        job: Arc<ClaimedJob>,
        handler: Option<&RegisteredHandler>,
        result: AttemptResult,
        elapsed: Duration,
    ) -> PendingSettlement {
        let queue_index = job.queue_index;
        if handler.is_some() {
            self.shared.queue_slots[queue_index].run_time.record(elapsed);
        }
        let outcome = match result {
            AttemptResult::Outcome(outcome) => outcome,
            AttemptResult::Settled(event_kind, verdict) => {
                let ended_job =
                    EndedJob { job: Some(job), queue_index, event_kind, elapsed, epoch: Epoch::default() };
                return PendingSettlement { settlement: SettlementState::Settled(verdict), ended_job };
            }
        };
        let error = error_of(&outcome);
        let event_kind = EventKind::new(&outcome);
        let decide_context = DecideContext {
            now: self.shared.store.clock().now(),
            backoff: handler.map_or(Backoff::DEFAULT, |handler| handler.backoff),
            random: fastrand::f64(),
        };
        let change = decide(&job.envelope, outcome, decide_context);
        let event_kind = event_kind.after_decision(&change);
        self.log_failure(&job, error.as_deref(), &change);
        let settlement = Settlement { lease: job.lease.clone(), change };
        PendingSettlement {
            settlement: SettlementState::Pending(settlement),
            ended_job: EndedJob { job: Some(job), queue_index, event_kind, elapsed, epoch: Epoch::default() },
        }
    }

    /// Says why an attempt failed and what follows.
    fn log_failure(&self, job: &ClaimedJob, error: Option<&str>, change: &Change) {
        let (log, envelope, queue) = (&self.shared.failure_log, &job.envelope, &job.lease.queue);
        match (change, error) {
            (Change::Bury(letter), _) => log.died(envelope, queue, letter),
            (Change::Requeue { delay, .. }, Some(error)) => {
                log.retried(&FailedAttempt { envelope, queue, error }, *delay);
            }
            (Change::Deliver(_), Some(error)) => log.delivered(&FailedAttempt { envelope, queue, error }),
            _ => {}
        }
    }

    /// Passes ended jobs on and frees their slots. In this order: when the completer cannot keep up, slots
    /// stay taken.
    async fn queue_settlements(&self, slots: &QueueSlots, ended: Vec<PendingSettlement>) {
        let count = ended.len();
        if count > 0 {
            self.shared.settlement_queue.send(ended).await;
            slots.release(count);
        }
    }
}

/// The error of an attempt that failed.
fn error_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Retry { error, .. } | Outcome::TimedOut { error, .. } => Some(error.clone()),
        Outcome::Dead(cause) => Some(cause.error.clone().unwrap_or_else(|| cause.reason.to_string())),
        _ => None,
    }
}

/// Where a job is after its first poll. Both are moved on at once, so the larger one is not boxed.
#[allow(clippy::large_enum_variant)]
enum FirstPoll {
    Done(PendingSettlement),
    Pending(PendingAttempt),
}

/// A job that is under way.
struct PendingAttempt {
    job: Arc<ClaimedJob>,
    route: HandlerIndex,
    begun: Instant,
    timeout: Option<Duration>,
    attempt: AttemptFuture,
}

/// Puts back a job that another worker may know; the longer the more often nobody has.
fn postpone_unknown_kind(envelope: &Envelope) -> Outcome {
    let [first, longest] = UNKNOWN_KIND_DELAYS;
    let after = first.saturating_mul(1 << envelope.postponed().min(16)).min(longest);
    let error = format!("no worker here has a handler for kind `{}`", envelope.kind());
    Outcome::Postpone { error, after: after.mul_f64(1.0 + 0.25 * fastrand::f64()) }
}
