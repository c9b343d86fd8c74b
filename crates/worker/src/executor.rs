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

use crate::assignment::Assignment;
use crate::attempt::{Allowance, attend, first_poll, stopped};
use crate::context::JobContext;
use crate::event::Ending;
use crate::failure_log::Failure;
use crate::handler::Attempt;
use crate::lane::Lane;
use crate::outbox::{Ended, Epoch, Fate, Note};
use crate::registry::{Registered, Registry, Route};
use crate::station::Station;
use crate::unknown_kinds::UnknownKinds;
use crate::upshot::Upshot;

/// A first poll shorter than this may share a task: less than what a task of its own would cost in cache
/// misses, times the chunk still well under a millisecond.
const SHARES_BELOW: Duration = Duration::from_micros(20);

/// How many jobs share a task. Small enough that a claimed batch spreads over all cores.
const CHUNK: usize = 32;

/// A single poll longer than this sends the rest of the chunk elsewhere.
const STALL: Duration = Duration::from_millis(1);

/// How long a job whose worker has died before waits at most for others to be settled: it holds a slot meanwhile.
const SUSPECT_WAITS: Duration = Duration::from_secs(5);

/// How long a job rests at first, and at the longest, that this worker has no handler for: another may know it.
const UNKNOWN_KIND: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// A job and its handler.
type Routed = (Arc<Assignment>, Route);

/// Runs the jobs of all queues.
pub(crate) struct Executor {
    station: Arc<Station>,
    registry: Registry,
    /// Owns every task that runs a handler.
    tasks: TaskTracker,
    unknown_kinds: UnknownKinds,
}

impl Executor {
    pub(crate) fn new(station: Arc<Station>, registry: Registry) -> Self {
        Self { station, registry, tasks: TaskTracker::new(), unknown_kinds: UnknownKinds::default() }
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
        lane: &Arc<Lane>,
        jobs: impl IntoIterator<Item = Arc<Assignment>>,
    ) {
        let mut chunk = Vec::new();
        for job in jobs {
            let route = self.registry.route(job.envelope.kind());
            if job.envelope.crashes() > 0 {
                self.tasks.spawn(self.clone().run_suspect(lane.clone(), (job, route)));
                continue;
            }
            if !self.shares(route) {
                self.spawn(lane, vec![(job, route)]);
                continue;
            }
            chunk.push((job, route));
            if chunk.len() == CHUNK {
                self.spawn(lane, std::mem::take(&mut chunk));
            }
        }
        if !chunk.is_empty() {
            self.spawn(lane, chunk);
        }
    }

    fn shares(&self, route: Route) -> bool {
        self.registry.at(route).is_none_or(|handler| handler.first_poll.is_under(SHARES_BELOW))
    }

    fn spawn(self: &Arc<Self>, lane: &Arc<Lane>, chunk: Vec<Routed>) {
        self.tasks.spawn(self.clone().run(lane.clone(), chunk));
    }

    /// Runs a job whose worker has died before: not while others that ended before it came still wait to be settled. If
    /// it takes this worker along too, they would count a crash that is not theirs, come back beside it, and
    /// in the end die with it. Those that end later are not waited for: on a busy worker there is always one.
    async fn run_suspect(self: Arc<Self>, lane: Arc<Lane>, suspect: Routed) {
        let _ = tokio::time::timeout(SUSPECT_WAITS, self.station.outbox.settled_so_far()).await;
        self.run(lane, vec![suspect]).await;
    }

    /// Runs a chunk in this task; what is pending after its first poll moves to a task of its own.
    async fn run(self: Arc<Self>, lane: Arc<Lane>, chunk: Vec<Routed>) {
        let alone = chunk.len() == 1;
        let mut ended = Vec::with_capacity(chunk.len());
        let mut rest = chunk.into_iter();
        let mut begun = Instant::now();
        while let Some((job, route)) = rest.next() {
            match self.begin(job, route, begun) {
                Step::Ended(job) => ended.push(job),
                Step::Pending(running) if alone => return self.attend(lane, running).await,
                Step::Pending(running) => drop(self.tasks.spawn(self.clone().attend(lane.clone(), running))),
            }
            let now = Instant::now();
            if now - begun > STALL && rest.len() > 0 {
                self.dispatch(&lane, rest.by_ref().map(|(job, _)| job));
            }
            begun = now;
        }
        self.hand_over(&lane, ended).await;
    }

    /// Takes a job through its first poll.
    fn begin(&self, job: Arc<Assignment>, route: Route, begun: Instant) -> Step {
        let Some(handler) = self.registry.at(route) else {
            self.unknown_kinds.log(job.envelope.kind());
            let outcome = pass_on(&job.envelope);
            return Step::Ended(self.end(job, None, outcome.into(), Duration::ZERO));
        };
        if let Some(why) = job.stop.why() {
            return Step::Ended(self.end(job, Some(handler), stopped(why, None), Duration::ZERO));
        }
        let timeout = job.envelope.timeout().or(handler.timeout);
        let deadline = timeout.map(|timeout| self.station.store.clock().now().after(timeout));
        let first =
            first_poll(|| handler.handler.call(JobContext::new(job.clone(), deadline, self.station.clone())));
        let took = begun.elapsed();
        handler.first_poll.sample(took);
        match first {
            Ok(outcome) => Step::Ended(self.end(job, Some(handler), outcome, took)),
            Err(attempt) => Step::Pending(Running { job, route, begun, timeout, attempt }),
        }
    }

    /// Sees a pending job through to its end.
    async fn attend(self: Arc<Self>, lane: Arc<Lane>, running: Running) {
        let Running { job, route, begun, timeout, attempt } = running;
        let (clock, cancel_grace) = (self.station.store.clock(), self.station.manner.cancel_grace);
        let outcome = attend(attempt, &job, Allowance { clock, timeout, cancel_grace }).await;
        let ended = self.end(job, self.registry.at(route), outcome, begun.elapsed());
        self.hand_over(&lane, vec![ended]).await;
    }

    /// Gives a job back that did not get to run.
    pub(crate) fn hand_back(&self, job: Arc<Assignment>) -> Ended {
        self.end(job, None, Outcome::HandedBack.into(), Duration::ZERO)
    }

    /// Decides what becomes of a job.
    fn end(
        &self,
        job: Arc<Assignment>,
        handler: Option<&Registered>,
        upshot: Upshot,
        took: Duration,
    ) -> Ended {
        let lane = job.lane;
        if handler.is_some() {
            self.station.lanes[lane].pace.sample(took);
        }
        let outcome = match upshot {
            Upshot::Outcome(outcome) => outcome,
            Upshot::Settled(ending, verdict) => {
                let note = Note { assignment: Some(job), lane, ending, took, epoch: Epoch::default() };
                return Ended { fate: Fate::Settled(verdict), note };
            }
        };
        let error = error_of(&outcome);
        let ending = Ending::of(&outcome);
        let circumstances = DecideContext {
            now: self.station.store.clock().now(),
            backoff: handler.map_or(Backoff::DEFAULT, |handler| handler.backoff),
            random: fastrand::f64(),
        };
        let change = decide(&job.envelope, outcome, circumstances);
        let ending = ending.after(&change);
        self.log_failure(&job, error.as_deref(), &change);
        let settlement = Settlement { lease: job.lease.clone(), change };
        Ended {
            fate: Fate::Settle(settlement),
            note: Note { assignment: Some(job), lane, ending, took, epoch: Epoch::default() },
        }
    }

    /// Says why an attempt failed and what follows.
    fn log_failure(&self, job: &Assignment, error: Option<&str>, change: &Change) {
        let (log, envelope, queue) = (&self.station.failure_log, &job.envelope, &job.lease.queue);
        match (change, error) {
            (Change::Bury(letter), _) => log.died(envelope, queue, letter),
            (Change::Requeue { delay, .. }, Some(error)) => {
                log.retried(&Failure { envelope, queue, error }, *delay);
            }
            (Change::Deliver(_), Some(error)) => log.delivered(&Failure { envelope, queue, error }),
            _ => {}
        }
    }

    /// Passes ended jobs on and frees their slots. In this order: when the completer cannot keep up, slots
    /// stay taken.
    async fn hand_over(&self, lane: &Lane, ended: Vec<Ended>) {
        let slots = ended.len();
        if slots > 0 {
            self.station.outbox.send(ended).await;
            lane.release(slots);
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
enum Step {
    Ended(Ended),
    Pending(Running),
}

/// A job that is under way.
struct Running {
    job: Arc<Assignment>,
    route: Route,
    begun: Instant,
    timeout: Option<Duration>,
    attempt: Attempt,
}

/// Puts back a job that another worker may know; the longer the more often nobody has.
fn pass_on(envelope: &Envelope) -> Outcome {
    let [first, longest] = UNKNOWN_KIND;
    let after = first.saturating_mul(1 << envelope.postponed().min(16)).min(longest);
    let error = format!("no worker here has a handler for kind `{}`", envelope.kind());
    Outcome::Postpone { error, after: after.mul_f64(1.0 + 0.25 * fastrand::f64()) }
}
