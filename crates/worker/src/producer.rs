//! Claims jobs of one queue: as many as there are free slots, and some ahead if it is told to.
//!
//! A job that is claimed into a free slot starts at once. A job that is claimed ahead is only *held*: it waits
//! in the buffer and is marked as started right before it runs, so that a crash never costs an attempt of a
//! job that did not run.

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

use crate::assignment::Assignment;
use crate::doubt::Doubt;
use crate::event::Ending;
use crate::executor::Executor;
use crate::lane::Lane;
use crate::outage::Outage;
use crate::outbox::{Ended, Epoch, Fate, Note};
use crate::station::Station;
use crate::trip::{Caller, Trip, Wanted};

/// How long to let short jobs free more slots before claiming for a few of them.
const GATHER: Duration = Duration::from_millis(1);

/// An empty answer sooner than this is no waiting.
const EARLY: Duration = Duration::from_millis(50);

/// So many of them in a row are bad luck: others were faster.
const HOLLOW: u32 = 3;

/// How long a call may take to come back once the worker is leaving.
const LAST_CALL: Duration = Duration::from_secs(4);

/// Claims for one queue.
pub(crate) struct Producer {
    index: usize,
    lane: Arc<Lane>,
    station: Arc<Station>,
    executor: Arc<Executor>,
    caller: Caller,
    shutdown: CancellationToken,
    /// Jobs that are held, oldest first.
    buffer: VecDeque<Arc<Assignment>>,
    /// A claim under way.
    claim: Option<Trip<Vec<Claimed>>>,
    claimed_at: Instant,
    /// Slots kept free for the jobs of that claim.
    reserved: usize,
    /// Whether a claim has failed that may have taken jobs.
    doubt: Doubt,
    /// A look for such jobs, under way. Never beside a claim: what that brings would be found as well.
    recover: Option<Trip<Vec<Claimed>>>,
    /// A start under way, and the jobs it is about.
    start: Option<Trip<Vec<Verdict>>>,
    starting: Vec<Arc<Assignment>>,
    /// Why it does not claim although it could.
    pause: Pause,
    /// Claims in a row that came back empty before their time.
    hollow: u32,
    outage: Outage,
}

/// A reason to wait before the next claim.
enum Pause {
    None,
    /// The store has just failed.
    Outage(Pin<Box<Sleep>>),
    /// More slots will be free in a moment.
    Gather(Pin<Box<Sleep>>),
    /// They had their moment.
    Gathered,
}

impl Pause {
    fn sleep(&mut self) -> Option<&mut Pin<Box<Sleep>>> {
        match self {
            Self::Outage(sleep) | Self::Gather(sleep) => Some(sleep),
            Self::None | Self::Gathered => None,
        }
    }

    fn over(&mut self) {
        *self = if matches!(self, Self::Gather(_)) { Self::Gathered } else { Self::None };
    }
}

impl Producer {
    pub(crate) fn new(
        index: usize,
        station: Arc<Station>,
        executor: Arc<Executor>,
        shutdown: CancellationToken,
    ) -> Self {
        let lane = station.lanes[index].clone();
        let outage = station.outage(format!("claiming from queue `{}`", lane.queue));
        let caller = Caller::new(station.clone(), lane.clone(), shutdown.clone());
        Self {
            index,
            lane,
            station,
            executor,
            caller,
            shutdown,
            outage,
            buffer: VecDeque::new(),
            claim: None,
            claimed_at: Instant::now(),
            reserved: 0,
            doubt: Doubt::default(),
            recover: None,
            start: None,
            starting: Vec::new(),
            pause: Pause::None,
            hollow: 0,
        }
    }

    pub(crate) async fn run(mut self) {
        while !self.shutdown.is_cancelled() {
            self.start_held();
            self.recover_claimed();
            self.claim_more();
            self.next_event().await;
        }
        self.wind_up().await;
    }

    async fn next_event(&mut self) {
        // With a claim under way and nothing in the buffer, a free slot changes nothing.
        let wants_slots = (self.claim.is_none() && self.recover.is_none()) || !self.buffer.is_empty();
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => {}
            Some(claimed) = OptionFuture::from(self.claim.as_mut()) => self.on_claimed(claimed).await,
            Some(found) = OptionFuture::from(self.recover.as_mut()) => self.on_recovered(found).await,
            Some(started) = OptionFuture::from(self.start.as_mut()) => self.on_started(started).await,
            Some(()) = OptionFuture::from(self.pause.sleep()) => self.pause.over(),
            () = self.lane.freed.notified(), if wants_slots => {}
            () = self.doubt.becomes_due(), if self.claim.is_none() && self.recover.is_none() => {}
        }
    }

    /// Slots nobody has a claim on yet.
    fn free(&self) -> usize {
        self.lane.free().saturating_sub(self.reserved + self.starting.len())
    }

    /// Starts held jobs while slots are free.
    fn start_held(&mut self) {
        let jobs = self.free().min(self.buffer.len());
        if jobs == 0 || self.start.is_some() || matches!(self.pause, Pause::Outage(_)) {
            return;
        }
        self.starting = self.buffer.drain(..jobs).collect();
        self.start = Some(self.caller.start(self.starting.iter().map(|job| job.lease.clone()).collect()));
    }

    /// Looks for jobs that a failed claim has taken.
    fn recover_claimed(&mut self) {
        let is_busy = self.claim.is_some() || self.recover.is_some();
        if !is_busy && self.doubt.is_due() && !matches!(self.pause, Pause::Outage(_)) {
            self.recover = Some(self.caller.recover(self.station.leases.of_lane(self.index)));
        }
    }

    /// Claims if there is room and no claim is under way.
    fn claim_more(&mut self) {
        if self.claim.is_some() || self.recover.is_some() || matches!(self.pause, Pause::Outage(_)) {
            return;
        }
        let free = if self.buffer.is_empty() { self.free() } else { 0 };
        let ahead = self.ahead();
        let max = (free + ahead).min(self.lane.most);
        if max == 0 || self.gathers(free) {
            return;
        }
        self.pause = Pause::None;
        self.reserved = free.min(max);
        self.claimed_at = Instant::now();
        // A claim that waits must not put off the next look for what an earlier one has taken.
        let at_most = self.doubt.remaining();
        self.claim = Some(self.caller.claim(Wanted { max, starting: self.reserved, at_most }));
    }

    /// How many jobs to claim ahead: nothing until half of the buffer is empty, because a claim for one costs
    /// the store as much as a claim for many.
    fn ahead(&self) -> usize {
        let prefetch = self.lane.prefetch;
        let room = prefetch.saturating_sub(self.buffer.len());
        if room * 2 >= prefetch { room } else { 0 }
    }

    /// Whether to wait for more slots. Never longer than a moment: the slots that are taken may stay so.
    fn gathers(&mut self, free: usize) -> bool {
        if free >= self.lane.worth_a_trip() || matches!(self.pause, Pause::Gathered) {
            return false;
        }
        if matches!(self.pause, Pause::None) {
            self.pause = Pause::Gather(Box::pin(sleep(GATHER)));
        }
        true
    }

    async fn on_claimed(&mut self, claimed: Result<Vec<Claimed>, Error>) {
        self.claim = None;
        self.reserved = 0;
        let started = match claimed {
            Err(error) => {
                self.doubt.begin();
                self.pause = Pause::Outage(Box::pin(sleep(self.outage.failed(&error))));
                Vec::new()
            }
            Ok(claimed) => {
                self.outage.is_over();
                if self.station.store.needs_recover(&self.lane.queue, &self.station.worker) {
                    self.doubt.begin_unless_begun();
                }
                self.beware_of_hollow(claimed.is_empty());
                self.take_in(claimed).await
            }
        };
        self.lane.claims.end();
        self.run_all(started);
    }

    /// Recovered jobs have not run, whatever the store says of them: they wait in the buffer and are started like held ones.
    async fn on_recovered(&mut self, found: Result<Vec<Claimed>, Error>) {
        self.recover = None;
        match found {
            Err(error) => self.pause = Pause::Outage(Box::pin(sleep(self.outage.failed(&error)))),
            Ok(found) => {
                self.doubt.looked();
                if !found.is_empty() {
                    info!(queue = %self.lane.queue, "recovered {} jobs of a claim without an answer", found.len());
                }
                let held = found.into_iter().map(|claimed| Claimed { started: false, ..claimed }).collect();
                self.take_in(held).await;
            }
        }
    }

    /// A store that keeps answering at once that there is nothing must not make a hot loop.
    fn beware_of_hollow(&mut self, empty: bool) {
        let early = empty && self.claimed_at.elapsed() < EARLY;
        self.hollow = if early { self.hollow.saturating_add(1) } else { 0 };
        if self.hollow > HOLLOW {
            self.pause = Pause::Outage(Box::pin(sleep(EARLY)));
        }
    }

    /// Takes claimed jobs into this worker's hands: held ones into the buffer, started ones are returned.
    async fn take_in(&mut self, claimed: Vec<Claimed>) -> Vec<Arc<Assignment>> {
        self.lane.counters.claimed(claimed.len());
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
        self.buffer.extend(self.station.leases.adopt(self.index, held));
        let started = self.station.leases.adopt(self.index, started);
        self.station.outbox.send(dead).await;
        started
    }

    fn bury_malformed(&self, lease: Lease, raw: &[u8], error: &MalformedEnvelope) -> Ended {
        warn!(queue = %lease.queue, job = %lease.job, "a message is no envelope, to the dead letters: {error}");
        let change = decide_malformed(&lease, raw, error, self.station.store.clock().now());
        self.never_ran(Settlement { lease, change })
    }

    fn bury_exhausted(&self, lease: Lease, envelope: &Envelope) -> Option<Ended> {
        let change = decide_exhausted(envelope, self.station.store.clock().now())?;
        warn!(queue = %lease.queue, job = %lease.job, "a job has used up its attempts, to the dead letters");
        Some(self.never_ran(Settlement { lease, change }))
    }

    /// The end of a job that is dead on arrival. Every worker would decide the same, so its lease is not kept alive.
    fn never_ran(&self, settlement: Settlement) -> Ended {
        let (ending, took, epoch) = (Ending::Dead, Duration::ZERO, Epoch::default());
        let note = Note { assignment: None, lane: self.index, ending, took, epoch };
        Ended { fate: Fate::Settle(settlement), note }
    }

    async fn on_started(&mut self, verdicts: Result<Vec<Verdict>, Error>) {
        self.start = None;
        let jobs = std::mem::take(&mut self.starting);
        match verdicts {
            Err(error) => {
                jobs.into_iter().rev().for_each(|job| self.buffer.push_front(job));
                self.pause = Pause::Outage(Box::pin(sleep(self.outage.failed(&error))));
            }
            Ok(verdicts) => {
                let judged = jobs.into_iter().zip(verdicts);
                let (started, lost): (Vec<_>, Vec<_>) = judged.partition(|(_, v)| *v == Verdict::Accepted);
                self.run_all(started.into_iter().map(|(job, _)| job).collect());
                self.hand_back(lost.into_iter().map(|(job, _)| job)).await;
            }
        }
    }

    fn run_all(&self, jobs: Vec<Arc<Assignment>>) {
        self.lane.occupy(jobs.len());
        self.executor.dispatch(&self.lane, jobs);
    }

    /// Hands back everything that has not begun to run.
    async fn wind_up(mut self) {
        let mut jobs = std::mem::take(&mut self.starting);
        if let Some(start) = self.start.take() {
            // Whatever it says: until it has said it, the store may be about to mark them.
            let _ = timeout(LAST_CALL, start).await;
        }
        if let Some(claim) = self.claim.take() {
            match timeout(LAST_CALL, claim).await {
                Ok(Ok(claimed)) => jobs.extend(self.take_in(claimed).await),
                Ok(Err(_)) | Err(_) => self.doubt.begin(),
            }
        }
        self.recover_the_last().await;
        jobs.extend(self.buffer.drain(..));
        self.hand_back(jobs).await;
    }

    /// What failed claims have taken goes back as well.
    async fn recover_the_last(&mut self) {
        let mut recover = self.recover.take();
        if recover.is_none() && self.doubt.exists() {
            recover = Some(self.caller.recover(self.station.leases.of_lane(self.index)));
        }
        if let Some(recover) = recover
            && let Ok(found) = timeout(LAST_CALL, recover).await
        {
            self.on_recovered(found).await;
        }
    }

    /// Gives up jobs that have not begun to run. Also those whose lease seems lost: if it was only locked by a
    /// transaction that comes to nothing, the job need not wait until the lease runs out.
    async fn hand_back(&mut self, jobs: impl IntoIterator<Item = Arc<Assignment>>) {
        let handed_back = jobs.into_iter().map(|job| self.executor.hand_back(job)).collect();
        self.station.outbox.send(handed_back).await;
    }
}
