//! The fleet: workers, sessions and wait queues, all in the first shard, so every verb is one
//! script.

mod attach;
mod beat;
mod close;
mod drain;
mod get_session;
mod get_worker;
mod join;
mod lease;
mod list_sessions;
mod list_waiting;
mod list_workers;
mod part;
mod reap;
mod release;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::{SessionId, WorkerDefaults, WorkerKey};
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{
    AttachParams, Attached, BeatParams, Fleet, LeaseParams, Leased, ListSessionsParams, ListWorkersParams,
    ORDER_TIMEOUT, Reaped, ReleaseParams, SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerOrders,
};

use crate::connection::ScriptCall;
use crate::connection::keys::FLEET_SHARD;
use crate::connection::named_args::NamedArgs;
use crate::connection::script::{FleetScripts, Script};
use crate::store::RedisStore;

/// State of this process for the fleet.
#[derive(Debug)]
pub(crate) struct FleetState {
    scripts: Arc<FleetScripts>,
    /// Cursors of the scans over entries of other programs, and over known workers. Each process
    /// has its own: together they are only faster.
    cursors: Mutex<[String; 2]>,
}

impl FleetState {
    pub(crate) fn new(flags: bool) -> Self {
        let cursors = Mutex::new([(); 2].map(|()| "0".to_owned()));
        Self { scripts: Arc::new(FleetScripts::new(flags)), cursors }
    }

    pub(crate) fn scripts(&self) -> Arc<FleetScripts> {
        self.scripts.clone()
    }
}

impl RedisStore {
    /// Calls a script about the fleet that reads no defaults for workers of other programs, or only
    /// those from when they were indexed.
    async fn call_fleet(&self, script: &Script, args: NamedArgs) -> Result<redis::Value, Error> {
        self.call_fleet_with(WorkerDefaults::default(), script, args).await
    }

    async fn call_fleet_with(
        &self,
        defaults: WorkerDefaults,
        script: &Script,
        args: NamedArgs,
    ) -> Result<redis::Value, Error> {
        let defaults = NamedArgs::new()
            .with("concurrent", defaults.capacity.concurrent)
            .with("limit", defaults.capacity.lifetime)
            .with("fresh", millis(defaults.beat_timeout));
        let args = args
            .with("channel", self.keys.channel())
            .with("defaults", defaults)
            .with("order_ttl", ORDER_TIMEOUT.as_secs());
        let call = ScriptCall::named(script, &[self.keys.lifetime_connections()], &args);
        self.connections.call(FLEET_SHARD, call).await
    }
}

#[async_trait]
impl Fleet for RedisStore {
    async fn join(&self, members: &[WorkerEntry]) -> Result<(), Error> {
        self.join_workers(members).await
    }

    async fn beat(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        self.beat_workers(beat).await
    }

    async fn part(&self, members: &[WorkerKey]) -> Result<(), Error> {
        self.part_workers(members).await
    }

    async fn lease(&self, lease: &LeaseParams) -> Result<Leased, Error> {
        self.lease_worker(lease).await
    }

    async fn attach(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
        self.attach_sessions(attach).await
    }

    async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        self.release_sessions(release).await
    }

    async fn close(&self, session: &SessionId) -> Result<bool, Error> {
        self.close_session(session).await
    }

    async fn drain(&self, member: &WorkerKey) -> Result<bool, Error> {
        self.drain_worker(member).await
    }

    async fn reap(&self, standard: Option<WorkerDefaults>) -> Result<Reaped, Error> {
        self.reap_fleet(standard).await
    }

    async fn get_worker(&self, member: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
        self.find_worker(member).await
    }

    async fn list_workers(&self, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error> {
        self.page_of_workers(list).await
    }

    async fn get_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
        self.find_session(session).await
    }

    async fn list_sessions(&self, list: ListSessionsParams<'_>) -> Result<Page<SessionInfo>, Error> {
        self.list_sessions(list).await
    }

    async fn list_waiting(&self) -> Result<Vec<WaitingInfo>, Error> {
        self.waiting_clients().await
    }
}
