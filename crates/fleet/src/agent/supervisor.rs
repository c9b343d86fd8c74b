//! The supervisor: starts browsers, registers them in the fleet, and replaces those that are used
//! up or dead.
//!
//! One task makes all decisions. Starting a browser, watching one and calling the store run in
//! tasks and futures of their own and report back, so none of them delays another.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::WorkerStatus;
use tidemill_core::wake::Wake;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::context::AgentContext;
use super::error::AgentError;
use super::handover::Handover;
use super::heartbeat::HeartbeatSchedule;
use super::launch::StartedBrowser;
use super::managed_browser::ManagedBrowser;
use super::plan::{BrowserStatus, DrainPhase};
use super::pool::{WorkerPool, is_stable};
use super::store_sync::{StoreSync, SyncResult, with_timeout};
use super::temp_dirs::TempDirs;
use super::watch::{BrowserEnd, BrowserEvent, BrowserStart, start, watch};

/// How long closing everything may take. The orphan killer removes what is left.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A store call in flight.
type PendingSync = Pin<Box<dyn Future<Output = SyncResult> + Send>>;

/// Keeps browsers running until it is stopped.
#[derive(Debug)]
pub(super) struct Supervisor {
    context: AgentContext,
    temp_dirs: Arc<TempDirs>,
    pools: Vec<WorkerPool>,
    browsers: BTreeMap<u64, ManagedBrowser>,
    /// Workers that are gone and that the store still has to remove.
    parting: Vec<WorkerKey>,
    /// Workers that are gone and stay registered until their successor joins.
    handover: Handover,
    tasks: JoinSet<BrowserEvent>,
    heartbeat: HeartbeatSchedule,
    /// The number of the next browser.
    next_number: u64,
    /// Cancels browsers that are starting.
    cancel_starts: CancellationToken,
    /// When the remaining browsers are closed. Set when draining begins.
    stop_deadline: Option<Instant>,
}

impl Supervisor {
    pub(super) fn new(context: AgentContext, temp_dirs: Arc<TempDirs>, pools: Vec<WorkerPool>) -> Self {
        Self {
            context,
            temp_dirs,
            pools,
            browsers: BTreeMap::new(),
            parting: Vec::new(),
            handover: Handover::default(),
            tasks: JoinSet::new(),
            heartbeat: HeartbeatSchedule::new(),
            next_number: 1,
            cancel_starts: CancellationToken::new(),
            stop_deadline: None,
        }
    }

    /// Runs until `until` completes, then lets sessions end for the grace period, and closes
    /// everything.
    pub(super) async fn run(mut self, until: impl Future) -> Result<(), AgentError> {
        let mut wakes = self.context.store.subscribe();
        let mut sync: Option<PendingSync> = None;
        tokio::pin!(until);
        loop {
            self.reconcile();
            if sync.is_none() && self.heartbeat.is_due() {
                sync = Some(Box::pin(self.begin_sync().run(self.context.store.clone())));
            }
            if self.is_finished(sync.is_some()) {
                break;
            }
            let next_wakeup = self.next_wakeup(sync.is_some());
            tokio::select! {
                Some(event) = self.tasks.join_next(), if !self.tasks.is_empty() => self.handle_event(event)?,
                result = sync_result(&mut sync), if sync.is_some() => {
                    sync = None;
                    self.apply_sync(result);
                }
                Some(wake) = wakes.next() => self.handle_wake(&wake),
                _ = &mut until, if self.stop_deadline.is_none() => self.drain(),
                () = sleep_until(next_wakeup) => {}
            }
        }
        self.close(sync).await;
        Ok(())
    }

    /// Starts, drains and closes browsers according to the pools' plans. Never waits.
    fn reconcile(&mut self) {
        for index in 0..self.pools.len() {
            let statuses: Vec<BrowserStatus> =
                self.pool_browsers(index).map(|(number, browser)| browser.status(*number)).collect();
            let plan = self.pools[index].target.plan(&statuses, self.pools[index].starting);
            if self.stop_deadline.is_none() && self.pools[index].paused_until().is_none() {
                (0..plan.start).for_each(|_| self.start(index));
            }
            plan.drain.iter().for_each(|number| self.advance_drain(*number, DrainPhase::Draining));
            plan.close.iter().for_each(|number| self.advance_drain(*number, DrainPhase::Closing));
        }
        if self.stop_deadline.is_some() {
            self.close_empty();
        }
    }

    fn pool_browsers(&self, index: usize) -> impl Iterator<Item = (&u64, &ManagedBrowser)> {
        self.browsers.iter().filter(move |(_, browser)| browser.pool == index)
    }

    fn start(&mut self, index: usize) {
        let (number, pool) = (self.next_number, &mut self.pools[index]);
        self.next_number += 1;
        pool.starting += 1;
        debug!("starting {} as number {number}", pool.launch.name());
        let (launch, cancel) = (pool.launch.clone(), self.cancel_starts.clone());
        let params =
            BrowserStart { number, pool: index, launch, start_time: self.context.start_time, cancel };
        self.tasks.spawn(start(self.temp_dirs.clone(), params));
    }

    /// Moves a browser to a later phase of its drain.
    fn advance_drain(&mut self, number: u64, phase: DrainPhase) {
        let Some(browser) = self.browsers.get_mut(&number) else { return };
        if phase > browser.phase {
            browser.phase = phase;
            self.heartbeat.schedule_now();
        }
        if phase == DrainPhase::Closing {
            browser.close.cancel();
        }
    }

    /// Closes drained browsers without a session. Used while stopping, when nothing is replaced.
    fn close_empty(&mut self) {
        let is_empty = |number: u64, browser: &ManagedBrowser| {
            let is_safe = browser.phase == DrainPhase::Acknowledged || !browser.join_sent;
            is_safe && browser.status(number).active == 0
        };
        let empty = self.browsers.iter().filter(|(number, browser)| is_empty(**number, browser));
        let empty: Vec<u64> = empty.map(|(number, _)| *number).collect();
        empty.into_iter().for_each(|number| self.advance_drain(number, DrainPhase::Closing));
    }

    /// Begins to stop: cancels starts and drains all browsers.
    fn drain(&mut self) {
        info!("draining: sessions may continue for {:?}", self.context.grace);
        self.stop_deadline = Some(Instant::now() + self.context.grace);
        self.cancel_starts.cancel();
        let numbers: Vec<u64> = self.browsers.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.advance_drain(number, DrainPhase::Draining));
    }

    fn is_finished(&self, is_syncing: bool) -> bool {
        let is_reported = self.parting.is_empty() && self.handover.is_empty();
        let is_empty = self.browsers.is_empty() && is_reported && !is_syncing;
        self.stop_deadline.is_some_and(|end| is_empty || Instant::now() >= end)
    }

    /// When the loop must run again even if nothing happens.
    fn next_wakeup(&self, is_syncing: bool) -> Instant {
        let pauses = self.pools.iter().filter_map(WorkerPool::paused_until);
        let beat = (!is_syncing).then(|| self.heartbeat.next());
        let times = pauses.chain(beat).chain(self.stop_deadline);
        times.min().unwrap_or_else(|| Instant::now() + CLOSE_TIMEOUT)
    }

    /// Handles the report of a browser task.
    fn handle_event(&mut self, event: Result<BrowserEvent, JoinError>) -> Result<(), AgentError> {
        match event.map_err(|error| AgentError::TaskFailed(error.to_string()))? {
            BrowserEvent::Started { number, pool, started } => self.register(number, pool, *started),
            BrowserEvent::NotStarted { pool, reason } => self.pools[pool].record_start_failure(&reason),
            BrowserEvent::Ended { number, end } => self.handle_end(number, &end),
        }
        Ok(())
    }

    fn register(&mut self, number: u64, index: usize, started: StartedBrowser) {
        let pool = &mut self.pools[index];
        pool.record_start();
        match self.context.managed_browser(pool, index, number, &started) {
            Ok(mut browser) => {
                browser.phase =
                    if self.stop_deadline.is_some() { DrainPhase::Draining } else { DrainPhase::Serving };
                self.tasks.spawn(watch(number, started, browser.close.clone()));
                self.browsers.insert(number, browser);
                self.heartbeat.schedule_now();
            }
            // Dropping `started` kills its processes.
            Err(error) => warn!("{} cannot be registered: {error}", pool.launch.name()),
        }
    }

    fn handle_end(&mut self, number: u64, end: &BrowserEnd) {
        let Some(browser) = self.browsers.remove(&number) else { return };
        let (uptime, pool) = (browser.started_at.elapsed(), &mut self.pools[browser.pool]);
        if let BrowserEnd::Unexpected(reason) = end {
            pool.record_crash(uptime);
            warn!("{} {} ended unexpectedly and will be replaced: {reason}", pool.launch.name(), browser.id);
        }
        if !browser.join_sent {
            return;
        }
        if matches!(end, BrowserEnd::Requested) && self.pool_browsers(browser.pool).next().is_none() {
            self.handover.keep(number, browser.pool, browser.entry());
        } else {
            self.parting.push(browser.id);
        }
        self.heartbeat.schedule_now();
    }

    /// Removes workers whose successor has joined or will not come.
    fn finish_handovers(&mut self) {
        let (browsers, pools, is_stopping) = (&self.browsers, &self.pools, self.stop_deadline.is_some());
        let is_served = |pool| browsers.values().any(|browser| browser.pool == pool);
        let finished = self.handover.take(|pool| is_stopping || pools[pool].is_failing() || is_served(pool));
        self.parting.extend(finished);
    }

    /// Collects what the store must learn now.
    fn begin_sync(&mut self) -> StoreSync {
        self.heartbeat.begin();
        self.finish_handovers();
        for browser in self.browsers.values_mut() {
            browser.detail.crashes = self.pools[browser.pool].crashes;
        }
        let beating = self.handover.entries().collect();
        let mut sync = StoreSync { parting: self.parting.clone(), beating, ..StoreSync::default() };
        for (number, browser) in &mut self.browsers {
            if browser.join_sent {
                sync.beating.push((*number, browser.entry()));
            } else if browser.phase == DrainPhase::Serving {
                // A browser that drains before it joined never joins.
                browser.join_sent = true;
                sync.joining.push((*number, browser.entry()));
            }
        }
        sync
    }

    /// Applies the store's answers.
    fn apply_sync(&mut self, result: SyncResult) {
        self.parting.retain(|id| !result.parted.contains(id));
        if self.heartbeat.finish(result.error.as_ref()) {
            self.browsers.values_mut().for_each(|browser| browser.counts.mark_uncertain());
        }
        for number in &result.joined {
            if let Some(browser) = self.browsers.get_mut(number) {
                browser.joined = true;
            }
        }
        for (number, orders, status) in &result.beats {
            let Some(browser) = self.browsers.get_mut(number) else { continue };
            browser.joined = true;
            browser.counts.update(orders);
            if *status == WorkerStatus::Draining && browser.phase == DrainPhase::Draining {
                browser.phase = DrainPhase::Acknowledged;
            }
            if is_stable(browser.started_at.elapsed()) {
                self.pools[browser.pool].reset_failures();
            }
        }
    }

    fn handle_wake(&mut self, wake: &Wake) {
        match wake {
            Wake::Worker(worker) if self.browsers.values().any(|browser| browser.id == *worker) => {
                self.heartbeat.schedule_now()
            }
            // It may concern one of these browsers. There may be many such wake-ups, so they are
            // rate limited.
            Wake::Everything => self.heartbeat.schedule_soon(),
            _ => {}
        }
    }

    /// Closes all browsers and removes their workers from the fleet.
    async fn close(mut self, sync: Option<PendingSync>) {
        self.browsers.values().for_each(|browser| browser.close.cancel());
        let closed = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
            self.tasks.shutdown().await;
        }
        // A heartbeat in flight must not arrive after the removal.
        if let Some(sync) = sync {
            self.apply_sync(sync.await);
        }
        self.parting.extend(self.handover.take(|_| true));
        let remaining =
            self.browsers.values().filter(|browser| browser.join_sent).map(|browser| browser.id.clone());
        let parting: Vec<WorkerKey> = self.parting.iter().cloned().chain(remaining).collect();
        if !parting.is_empty()
            && let Err(error) = with_timeout("part", self.context.store.part(&parting)).await
        {
            warn!(
                "cannot remove the browsers from the fleet, their heartbeats will expire: {}",
                error.full_message()
            );
        }
    }
}

async fn sync_result(sync: &mut Option<PendingSync>) -> SyncResult {
    match sync {
        Some(sync) => sync.await,
        None => std::future::pending().await,
    }
}
