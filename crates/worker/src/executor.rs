//! The executor: finds the handler of a job, runs the attempt, decides its outcome and queues its
//! settlement.
//!
//! A task per job costs more than many jobs themselves. So jobs of a kind with short first polls
//! share a task, which polls each job once. Only a job that is still pending gets a task of its
//! own. A kind with long first polls never shares a task, so it cannot delay other jobs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::settle::{Change, DecideContext, Settlement, decide};
use tidemill_core::{Backoff, Envelope, Kind, Outcome};
use tokio_util::task::TaskTracker;

use crate::attempt::{AttemptLimits, first_poll, run_to_end, stop_outcome};
use crate::completer::queue::{EndedJob, Epoch, PendingSettlement};
use crate::event::EventKind;
use crate::failure_log::FailedAttempt;
use crate::handler::AttemptFuture;
use crate::handler::context::JobContext;
use crate::handler::registry::{HandlerIndex, RegisteredHandler, Registry};
use crate::leases::ClaimedJob;
use crate::queue_slots::QueueSlots;
use crate::shared::WorkerShared;
use crate::span::in_job_span;
use crate::unknown_kinds::UnknownKinds;

/// Kinds with shorter first polls share a task. Below this, a task of its own costs more in cache
/// misses, and a whole chunk still takes well under a millisecond.
const MAX_SHARED_FIRST_POLL: Duration = Duration::from_micros(20);

/// The number of jobs that share a task. Small enough to spread a claimed batch over all cores.
const MAX_CHUNK_JOBS: usize = 32;

/// After a longer poll, the rest of the chunk moves to other tasks.
const MAX_CHUNK_POLL: Duration = Duration::from_millis(1);

/// How long a job that has crashed a worker waits for other settlements. It occupies a slot
/// meanwhile.
const CRASHED_JOB_WAIT: Duration = Duration::from_secs(5);

/// First and maximum delay of a job without a handler here. Another worker may have one.
const UNKNOWN_KIND_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// A job and the index of its handler.
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

    /// The kinds that it can run: see [`Registry::kinds`].
    pub(crate) fn kinds(&self) -> (Vec<Kind>, bool) {
        self.registry.kinds()
    }

    /// The tasks that run handlers.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Runs jobs of one queue. The caller has occupied a slot for each.
    pub(crate) fn dispatch(
        self: &Arc<Self>,
        slots: &Arc<QueueSlots>,
        jobs: impl IntoIterator<Item = Arc<ClaimedJob>>,
    ) {
        let mut chunk = Vec::new();
        for job in jobs {
            let handler_index = self.registry.find(job.envelope.kind());
            if job.envelope.crashes() > 0 {
                self.tasks.spawn(self.clone().run_after_crash(slots.clone(), (job, handler_index)));
                continue;
            }
            if !self.may_share_task(handler_index) {
                self.spawn(slots, vec![(job, handler_index)]);
                continue;
            }
            chunk.push((job, handler_index));
            if chunk.len() == MAX_CHUNK_JOBS {
                self.spawn(slots, std::mem::take(&mut chunk));
            }
        }
        if !chunk.is_empty() {
            self.spawn(slots, chunk);
        }
    }

    fn may_share_task(&self, handler_index: HandlerIndex) -> bool {
        self.registry
            .get(handler_index)
            .is_none_or(|handler| handler.first_poll_time.is_under(MAX_SHARED_FIRST_POLL))
    }

    fn spawn(self: &Arc<Self>, slots: &Arc<QueueSlots>, chunk: Vec<RoutedJob>) {
        self.tasks.spawn(self.clone().run(slots.clone(), chunk));
    }

    /// Runs a job whose earlier worker crashed. First waits until all jobs that ended before it are
    /// settled. If this job crashes the worker again, unsettled jobs would count a crash that they
    /// did not cause, run again next to it, and could end up dead. Jobs that end later are not
    /// waited for, because a busy worker always has some.
    async fn run_after_crash(self: Arc<Self>, slots: Arc<QueueSlots>, job: RoutedJob) {
        let _ = tokio::time::timeout(CRASHED_JOB_WAIT, self.shared.settlement_queue.wait_for_earlier_jobs())
            .await;
        self.run(slots, vec![job]).await;
    }

    /// Runs a chunk in this task. A job that is pending after its first poll moves to its own task.
    async fn run(self: Arc<Self>, slots: Arc<QueueSlots>, chunk: Vec<RoutedJob>) {
        let is_single = chunk.len() == 1;
        let mut ended = Vec::with_capacity(chunk.len());
        let mut rest = chunk.into_iter();
        let mut started_at = Instant::now();
        while let Some((job, handler_index)) = rest.next() {
            match self.start(job, handler_index, started_at) {
                FirstPoll::Done(job) => ended.push(job),
                FirstPoll::Pending(running) if is_single => return self.run_to_end(slots, running).await,
                FirstPoll::Pending(running) => {
                    drop(self.tasks.spawn(self.clone().run_to_end(slots.clone(), running)))
                }
            }
            let now = Instant::now();
            if now - started_at > MAX_CHUNK_POLL && rest.len() > 0 {
                self.dispatch(&slots, rest.by_ref().map(|(job, _)| job));
            }
            started_at = now;
        }
        self.queue_settlements(&slots, ended).await;
    }

    /// Polls a job for the first time.
    fn start(&self, job: Arc<ClaimedJob>, handler_index: HandlerIndex, started_at: Instant) -> FirstPoll {
        let Some(handler) = self.registry.get(handler_index) else {
            self.unknown_kinds.log(job.envelope.kind());
            let outcome = postpone_unknown_kind(&job.envelope);
            return FirstPoll::Done(self.decide_end(job, None, outcome, Duration::ZERO));
        };
        if let Some(reason) = job.stop.reason() {
            return FirstPoll::Done(self.decide_end(
                job,
                Some(handler),
                stop_outcome(reason, None),
                Duration::ZERO,
            ));
        }
        let timeout = job.envelope.timeout().or(handler.timeout);
        let deadline = timeout.map(|timeout| self.shared.store.clock().now().after(timeout));
        let first = first_poll(|| {
            let context = JobContext::new(job.clone(), deadline, self.shared.clone());
            in_job_span(&job, handler.handler.call(context))
        });
        let elapsed = started_at.elapsed();
        handler.first_poll_time.record(elapsed);
        match first {
            Ok(outcome) => FirstPoll::Done(self.decide_end(job, Some(handler), outcome, elapsed)),
            Err(attempt) => {
                FirstPoll::Pending(PendingAttempt { job, handler_index, started_at, timeout, attempt })
            }
        }
    }

    /// Runs a pending job until it ends.
    async fn run_to_end(self: Arc<Self>, slots: Arc<QueueSlots>, running: PendingAttempt) {
        let PendingAttempt { job, handler_index, started_at, timeout, attempt } = running;
        let (clock, cancel_grace) = (self.shared.store.clock(), self.shared.config.cancel_grace);
        let outcome = run_to_end(attempt, &job, AttemptLimits { clock, timeout, cancel_grace }).await;
        let ended = self.decide_end(job, self.registry.get(handler_index), outcome, started_at.elapsed());
        self.queue_settlements(&slots, vec![ended]).await;
    }

    /// Hands back a job that did not run.
    pub(crate) fn hand_back(&self, job: Arc<ClaimedJob>) -> PendingSettlement {
        self.decide_end(job, None, Outcome::HandedBack, Duration::ZERO)
    }

    /// Decides the settlement of a job.
    fn decide_end(
        &self,
        job: Arc<ClaimedJob>,
        handler: Option<&RegisteredHandler>,
        outcome: Outcome,
        elapsed: Duration,
    ) -> PendingSettlement {
        let queue_index = job.queue_index;
        if handler.is_some() {
            self.shared.queue_slots[queue_index].run_time.record(elapsed);
        }
        let mut event_kind = EventKind::new(&outcome);
        let settlement = match outcome {
            Outcome::Settled(verdict) => Err(verdict),
            outcome => {
                let settlement = self.decide(&job, handler, outcome);
                event_kind = event_kind.after_decision(&settlement.change);
                Ok(settlement)
            }
        };
        let ended_job =
            EndedJob { job: Some(job), queue_index, event_kind, elapsed, epoch: Epoch::default() };
        PendingSettlement { settlement, ended_job }
    }

    /// Decides what happens to a job, and logs a failure.
    fn decide(&self, job: &ClaimedJob, handler: Option<&RegisteredHandler>, outcome: Outcome) -> Settlement {
        let error = error_of(&outcome);
        let decide_context = DecideContext {
            now: self.shared.store.clock().now(),
            backoff: handler.map_or(Backoff::DEFAULT, |handler| handler.backoff),
            random: fastrand::f64(),
        };
        let change = decide(&job.envelope, outcome, decide_context);
        self.log_failure(job, error.as_deref(), &change);
        Settlement { lease: job.lease.clone(), change }
    }

    /// Logs the error of a failed attempt and what follows.
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

    /// Queues ended jobs and then frees their slots. In this order, slots stay occupied while the
    /// completer cannot keep up.
    async fn queue_settlements(&self, slots: &QueueSlots, ended: Vec<PendingSettlement>) {
        let count = ended.len();
        if count > 0 {
            self.shared.settlement_queue.send(ended).await;
            slots.release(count);
        }
    }
}

/// The error of a failed attempt.
fn error_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Retry { error, .. } | Outcome::TimedOut { error, .. } => Some(error.clone()),
        Outcome::Dead(cause) => Some(cause.error.clone().unwrap_or_else(|| cause.reason.to_string())),
        _ => None,
    }
}

/// A job after its first poll. Both variants are moved on immediately, so the larger one is not
/// boxed.
#[allow(clippy::large_enum_variant)]
enum FirstPoll {
    Done(PendingSettlement),
    Pending(PendingAttempt),
}

/// An attempt that is pending after its first poll.
struct PendingAttempt {
    job: Arc<ClaimedJob>,
    handler_index: HandlerIndex,
    started_at: Instant,
    timeout: Option<Duration>,
    attempt: AttemptFuture,
}

/// Postpones a job for another worker, with a delay that grows with each postponement.
fn postpone_unknown_kind(envelope: &Envelope) -> Outcome {
    let [first, longest] = UNKNOWN_KIND_DELAYS;
    let after = first.saturating_mul(1 << envelope.postponed().min(16)).min(longest);
    let error = format!("no worker here has a handler for kind `{}`", envelope.kind());
    Outcome::Postpone { error, after: after.mul_f64(1.0 + 0.25 * fastrand::f64()) }
}
