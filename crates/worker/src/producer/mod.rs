//! The producer: claims jobs of one queue into free slots, and optionally prefetches some.
//!
//! A job that is claimed into a free slot starts at once. A prefetched job is only *held*: it waits
//! in the buffer and is marked as started right before it runs. So a crash never costs an attempt
//! of a job that did not run.

mod recovery;
mod store_calls;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tidemill_core::envelope::MalformedEnvelope;
use tidemill_core::settle::{Settlement, decide_exhausted, decide_malformed};
use tidemill_core::store::{Claimed, Verdict};
use tidemill_core::{Envelope, Error, Lease};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::completer::queue::{EndedJob, Epoch, PendingSettlement};
use crate::event::EventKind;
use crate::executor::Executor;
use crate::failure_backoff::FailureBackoff;
use crate::leases::ClaimedJob;
use crate::producer::recovery::RecoverySchedule;
use crate::producer::store_calls::{ClaimRequest, StoreCall, StoreCalls};
use crate::queue_slots::QueueSlots;
use crate::shared::WorkerShared;

/// How long to wait for more free slots before claiming for a few of them.
const SLOT_GATHER_PAUSE: Duration = Duration::from_millis(1);

/// An empty claim that returns sooner than this did not wait.
const MIN_EMPTY_CLAIM_WAIT: Duration = Duration::from_millis(50);

/// The number of consecutive such claims that is attributed to faster competitors.
const MAX_EMPTY_CLAIMS: u32 = 3;

/// The time limit of a pending call during shutdown.
const SHUTDOWN_CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// Claims for one queue.
pub(crate) struct Producer {
    index: usize,
    slots: Arc<QueueSlots>,
    shared: Arc<WorkerShared>,
    executor: Arc<Executor>,
    calls: StoreCalls,
    shutdown: CancellationToken,
    /// Held jobs, oldest first.
    buffer: VecDeque<Arc<ClaimedJob>>,
    /// The pending claim.
    claim: Option<StoreCall<Vec<Claimed>>>,
    claimed_at: Instant,
    /// Slots reserved for the jobs of that claim.
    reserved: usize,
    /// When to query the store for jobs of failed claims.
    recovery: RecoverySchedule,
    /// The pending recovery. Never concurrent with a claim, whose new jobs it would find as well.
    recover: Option<StoreCall<Vec<Claimed>>>,
    /// The pending start of held jobs, and those jobs.
    start: Option<StoreCall<Vec<Verdict>>>,
    starting: Vec<Arc<ClaimedJob>>,
    /// A reason not to claim, although slots are free.
    pause: ClaimPause,
    /// Consecutive claims that returned empty without waiting.
    empty_claims: u32,
    backoff: FailureBackoff,
}

/// A reason to wait before the next claim.
enum ClaimPause {
    None,
    /// The last call failed.
    Backoff(Pin<Box<Sleep>>),
    /// More slots will soon be free.
    SlotGathering(Pin<Box<Sleep>>),
    /// The wait for more slots is over.
    SlotsGathered,
}

impl ClaimPause {
    fn sleep(&mut self) -> Option<&mut Pin<Box<Sleep>>> {
        match self {
            Self::Backoff(sleep) | Self::SlotGathering(sleep) => Some(sleep),
            Self::None | Self::SlotsGathered => None,
        }
    }

    fn expire(&mut self) {
        *self = if matches!(self, Self::SlotGathering(_)) { Self::SlotsGathered } else { Self::None };
    }
}

impl Producer {
    pub(crate) fn new(
        index: usize,
        shared: Arc<WorkerShared>,
        executor: Arc<Executor>,
        shutdown: CancellationToken,
    ) -> Self {
        let slots = shared.queue_slots[index].clone();
        let backoff = shared.backoff(format!("claiming from queue `{}`", slots.queue));
        let calls = StoreCalls::new(shared.clone(), slots.clone(), shutdown.clone());
        Self {
            index,
            slots,
            shared,
            executor,
            calls,
            shutdown,
            backoff,
            buffer: VecDeque::new(),
            claim: None,
            claimed_at: Instant::now(),
            reserved: 0,
            recovery: RecoverySchedule::default(),
            recover: None,
            start: None,
            starting: Vec::new(),
            pause: ClaimPause::None,
            empty_claims: 0,
        }
    }

    pub(crate) async fn run(mut self) {
        while !self.shutdown.is_cancelled() {
            self.start_held();
            self.recover_claimed();
            self.claim_more();
            self.next_event().await;
        }
        self.shut_down().await;
    }

    async fn next_event(&mut self) {
        // With a pending claim and an empty buffer, a free slot changes nothing.
        let wants_slots = (self.claim.is_none() && self.recover.is_none()) || !self.buffer.is_empty();
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => {}
            Some(claimed) = OptionFuture::from(self.claim.as_mut()) => self.on_claimed(claimed).await,
            Some(found) = OptionFuture::from(self.recover.as_mut()) => self.on_recovered(found).await,
            Some(started) = OptionFuture::from(self.start.as_mut()) => self.on_started(started).await,
            Some(()) = OptionFuture::from(self.pause.sleep()) => self.pause.expire(),
            () = self.slots.slot_freed.notified(), if wants_slots => {}
            () = self.recovery.wait_until_due(), if self.claim.is_none() && self.recover.is_none() => {}
        }
    }

    /// Free slots that are not reserved.
    fn free(&self) -> usize {
        self.slots.free().saturating_sub(self.reserved + self.starting.len())
    }

    /// Starts held jobs while slots are free.
    fn start_held(&mut self) {
        let jobs = self.free().min(self.buffer.len());
        if jobs == 0 || self.start.is_some() || matches!(self.pause, ClaimPause::Backoff(_)) {
            return;
        }
        self.starting = self.buffer.drain(..jobs).collect();
        self.start = Some(self.calls.start(self.starting.iter().map(|job| job.lease.clone()).collect()));
    }

    /// Queries the store for jobs of a failed claim.
    fn recover_claimed(&mut self) {
        let is_busy = self.claim.is_some() || self.recover.is_some();
        if !is_busy && self.recovery.is_due() && !matches!(self.pause, ClaimPause::Backoff(_)) {
            self.recover = Some(self.calls.recover(self.shared.leases.of_queue(self.index)));
        }
    }

    /// Claims jobs if there is capacity and no claim is pending.
    fn claim_more(&mut self) {
        if self.claim.is_some() || self.recover.is_some() || matches!(self.pause, ClaimPause::Backoff(_)) {
            return;
        }
        let free = if self.buffer.is_empty() { self.free() } else { 0 };
        let prefetch_room = self.prefetch_room();
        let max = (free + prefetch_room).min(self.slots.max_claim);
        if max == 0 || self.waits_for_slots(free) {
            return;
        }
        self.pause = ClaimPause::None;
        self.reserved = free.min(max);
        self.claimed_at = Instant::now();
        // A waiting claim must not delay the next recovery.
        let max_wait = self.recovery.time_left();
        self.claim = Some(self.calls.claim(ClaimRequest { max, starting: self.reserved, max_wait }));
    }

    /// How many jobs to prefetch: none until half of the buffer is empty, because claiming one job
    /// costs the store as much as claiming many.
    fn prefetch_room(&self) -> usize {
        let prefetch = self.slots.prefetch;
        let room = prefetch.saturating_sub(self.buffer.len());
        if room * 2 >= prefetch { room } else { 0 }
    }

    /// Whether to wait for more free slots. Only briefly, because occupied slots may stay so for
    /// long.
    fn waits_for_slots(&mut self, free: usize) -> bool {
        if free >= self.slots.min_free_slots_to_claim() || matches!(self.pause, ClaimPause::SlotsGathered) {
            return false;
        }
        if matches!(self.pause, ClaimPause::None) {
            self.pause = ClaimPause::SlotGathering(Box::pin(sleep(SLOT_GATHER_PAUSE)));
        }
        true
    }

    async fn on_claimed(&mut self, claimed: Result<Vec<Claimed>, Error>) {
        self.claim = None;
        self.reserved = 0;
        let started = match claimed {
            Err(error) => {
                self.recovery.start();
                self.pause = ClaimPause::Backoff(Box::pin(sleep(self.backoff.record_failure(&error))));
                Vec::new()
            }
            Ok(claimed) => {
                self.backoff.record_success();
                if self.shared.store.needs_recover(&self.slots.queue, &self.shared.worker) {
                    self.recovery.start_if_idle();
                }
                self.pause_after_empty_claims(claimed.is_empty());
                self.accept_claimed(claimed, self.held_until()).await
            }
        };
        self.slots.claim_tracker.end();
        self.run_all(started);
    }

    /// Recovered jobs have not run, even if the store has marked them as started. They wait in the
    /// buffer and are started like held ones.
    async fn on_recovered(&mut self, found: Result<Vec<Claimed>, Error>) {
        self.recover = None;
        match found {
            Err(error) => {
                self.pause = ClaimPause::Backoff(Box::pin(sleep(self.backoff.record_failure(&error))))
            }
            Ok(found) => {
                self.recovery.record_lookup();
                if !found.is_empty() {
                    info!(queue = %self.slots.queue, "recovered {} jobs of an unanswered claim", found.len());
                }
                let held = found.into_iter().map(|claimed| Claimed { started: false, ..claimed }).collect();
                self.accept_claimed(held, None).await;
            }
        }
    }

    /// Prevents a hot loop with a store that keeps returning empty claims at once.
    fn pause_after_empty_claims(&mut self, empty: bool) {
        let early = empty && self.claimed_at.elapsed() < MIN_EMPTY_CLAIM_WAIT;
        self.empty_claims = if early { self.empty_claims.saturating_add(1) } else { 0 };
        if self.empty_claims > MAX_EMPTY_CLAIMS {
            self.pause = ClaimPause::Backoff(Box::pin(sleep(MIN_EMPTY_CLAIM_WAIT)));
        }
    }

    /// Until when the leases of the last claim last at least.
    fn held_until(&self) -> Option<Instant> {
        self.claimed_at.checked_add(self.shared.config.lease)
    }

    /// Adds claimed jobs to the lease table. Held jobs move to the buffer; started ones are
    /// returned.
    async fn accept_claimed(
        &mut self,
        claimed: Vec<Claimed>,
        held_until: Option<Instant>,
    ) -> Vec<Arc<ClaimedJob>> {
        self.slots.counters.claimed(claimed.len());
        let (mut started, mut held, mut dead) = (Vec::with_capacity(claimed.len()), vec![], vec![]);
        for Claimed { lease, body, started: is_started } in claimed {
            match body {
                Ok(envelope) if envelope.attempts() >= envelope.max_attempts() => {
                    dead.extend(self.bury_exhausted(lease, &envelope));
                }
                Ok(envelope) if is_started => started.push((lease, envelope)),
                Ok(envelope) => held.push((lease, envelope)),
                Err((raw, error)) => dead.push(self.bury_malformed(lease, &raw, &error)),
            }
        }
        self.buffer.extend(self.shared.leases.insert(self.index, held, held_until));
        let started = self.shared.leases.insert(self.index, started, held_until);
        self.shared.settlement_queue.send(dead).await;
        started
    }

    fn bury_malformed(&self, lease: Lease, raw: &[u8], error: &MalformedEnvelope) -> PendingSettlement {
        warn!(queue = %lease.queue, job = %lease.job, "a message is not an envelope and moves to the dead letters: {error}");
        let change = decide_malformed(&lease, raw, error, self.shared.store.clock().now());
        self.settlement_without_run(Settlement { lease, change })
    }

    fn bury_exhausted(&self, lease: Lease, envelope: &Envelope) -> Option<PendingSettlement> {
        let change = decide_exhausted(envelope, self.shared.store.clock().now())?;
        warn!(queue = %lease.queue, job = %lease.job, "a job has used up its attempts and moves to the dead letters");
        Some(self.settlement_without_run(Settlement { lease, change }))
    }

    /// The settlement of a job that is dead before it runs. Every worker would decide the same, so
    /// its lease is not extended.
    fn settlement_without_run(&self, settlement: Settlement) -> PendingSettlement {
        let (event_kind, elapsed, epoch) = (EventKind::Dead, Duration::ZERO, Epoch::default());
        let ended_job = EndedJob { job: None, queue_index: self.index, event_kind, elapsed, epoch };
        PendingSettlement { settlement: Ok(settlement), ended_job }
    }

    async fn on_started(&mut self, verdicts: Result<Vec<Verdict>, Error>) {
        self.start = None;
        let jobs = std::mem::take(&mut self.starting);
        match verdicts {
            Err(error) => {
                jobs.into_iter().rev().for_each(|job| self.buffer.push_front(job));
                self.pause = ClaimPause::Backoff(Box::pin(sleep(self.backoff.record_failure(&error))));
            }
            Ok(verdicts) => {
                let judged = jobs.into_iter().zip(verdicts);
                let (started, lost): (Vec<_>, Vec<_>) = judged.partition(|(_, v)| *v == Verdict::Accepted);
                self.run_all(started.into_iter().map(|(job, _)| job).collect());
                self.hand_back(lost.into_iter().map(|(job, _)| job)).await;
            }
        }
    }

    fn run_all(&self, jobs: Vec<Arc<ClaimedJob>>) {
        self.slots.occupy(jobs.len());
        self.executor.dispatch(&self.slots, jobs);
    }

    /// Hands back all jobs that have not started to run.
    async fn shut_down(mut self) {
        let mut jobs = std::mem::take(&mut self.starting);
        if let Some(start) = self.start.take() {
            // The result does not matter. Before the answer, the store may still mark the jobs as
            // started.
            let _ = timeout(SHUTDOWN_CALL_TIMEOUT, start).await;
        }
        if let Some(claim) = self.claim.take() {
            match timeout(SHUTDOWN_CALL_TIMEOUT, claim).await {
                Ok(Ok(claimed)) => jobs.extend(self.accept_claimed(claimed, self.held_until()).await),
                Ok(Err(_)) | Err(_) => self.recovery.start(),
            }
        }
        self.recover_before_shutdown().await;
        jobs.extend(self.buffer.drain(..));
        self.hand_back(jobs).await;
    }

    /// Recovers the jobs of failed claims, so that they are handed back too.
    async fn recover_before_shutdown(&mut self) {
        let mut recover = self.recover.take();
        if recover.is_none() && self.recovery.is_active() {
            recover = Some(self.calls.recover(self.shared.leases.of_queue(self.index)));
        }
        if let Some(recover) = recover
            && let Ok(found) = timeout(SHUTDOWN_CALL_TIMEOUT, recover).await
        {
            self.on_recovered(found).await;
        }
    }

    /// Hands back jobs that have not started to run, even if their leases seem lost. A user's
    /// transaction may only have locked the job, and a rollback makes the lease valid again. Then
    /// the job need not wait until its lease expires.
    async fn hand_back(&mut self, jobs: impl IntoIterator<Item = Arc<ClaimedJob>>) {
        let handed_back = jobs.into_iter().map(|job| self.executor.hand_back(job)).collect();
        self.shared.settlement_queue.send(handed_back).await;
    }
}
