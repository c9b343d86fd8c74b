//! The Redis store: its parts, opening it, and the implementation of `Store`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Once};

use async_trait::async_trait;
use tidemill_core::store::Durability;
use tidemill_core::wake::{Bus, PollInterval};
use tidemill_core::workflow::RunId;
use tidemill_core::{Clock, Error, HolderId, Queue, Store};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::acl::MissingPermissions;
use crate::clock::ServerClock;
use crate::connection::Connections;
use crate::connection::breaker::Breaker;
use crate::connection::keys::Keys;
use crate::connection::script::Scripts;
use crate::fleet::FleetState;
use crate::inspect::checkup::ServerInfo;
use crate::inspect::damage::LoggedDamage;
use crate::jobs::{
    GroupCommit, ListPops, OrphanScans, OverdueCursors, PlainEnqueuer, ReceiptSlots, RepairCursors,
    RunningUntracked, UncertainClaims,
};
use crate::options::RedisOptions;
use crate::wake;

/// Jobs in Redis or Valkey.
#[derive(Debug)]
pub struct RedisStore {
    pub(crate) connections: Arc<Connections>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) plain_enqueuer: Arc<PlainEnqueuer>,
    pub(crate) group_commit: GroupCommit,
    pub(crate) fleet_state: FleetState,
    durability: Durability,
    /// The permissions that the user of the URL lacks.
    pub(crate) permissions: MissingPermissions,
    /// Logs once what a worker cannot do without optional permissions.
    pub(crate) restrictions_logged: Once,
    /// Queues that this process has paused or seen paused, and until when that is assumed.
    pub(crate) paused_queues: Mutex<HashMap<Queue, Instant>>,
    /// Streams whose group exists and where this worker's lease is recorded.
    pub(crate) prepared: Mutex<HashSet<(Queue, u16, HolderId)>>,
    /// Progress of the search for list jobs without a worker.
    pub(crate) orphan_scans: OrphanScans,
    /// Progress of the search for index entries of removed jobs.
    pub(crate) repair_cursors: RepairCursors,
    /// Which queues the next search for expired leases checks.
    pub(crate) overdue_cursors: OverdueCursors,
    /// Damaged keys that have been logged.
    pub(crate) logged_damage: LoggedDamage,
    /// Pops from lists, and which of them were answered.
    pub(crate) list_pops: ListPops,
    /// Workers whose claims may have taken more jobs than they returned.
    pub(crate) uncertain_claims: Arc<UncertainClaims>,
    /// Shards whose servers do not respond.
    pub(crate) breaker: Breaker,
    pub(crate) running_untracked: RunningUntracked,
    /// How many streams were pruned, to choose the next ones.
    pub(crate) pruned_streams: AtomicUsize,
    /// Receives wake-ups, until the store is dropped.
    _tasks: JoinSet<()>,
}

impl RedisStore {
    /// Connects. Rejects a server that could lose jobs or lacks a required feature.
    pub async fn connect(options: RedisOptions) -> Result<Self, Error> {
        let keys = Arc::new(Keys::new(&options));
        let link = Arc::new(Connections::connect(options, keys.clone()).await?);
        let server = ServerInfo::fetch(&link).await?;
        server.check(link.options())?;
        let flags = server.version >= (7, 0);
        let scripts = Arc::new(Scripts::new(flags));
        let registry = FleetState::new(flags);
        let rights = link.missing_permissions().await?;
        rights.check()?;
        let clock = Arc::new(ServerClock::default());
        clock.sync(link.time(0).await?);
        let (of_jobs, of_fleet) = (scripts.clone(), registry.scripts());
        link.set_refusal_rules(move |rights| rights.refused_scripts(of_jobs.iter().chain(of_fleet.iter())));
        let adder = Arc::new(PlainEnqueuer {
            connections: link.clone(),
            keys: keys.clone(),
            scripts: scripts.clone(),
            clock: clock.clone(),
            receipts: ReceiptSlots::new(),
        });
        let doubts = Arc::<UncertainClaims>::default();
        let (bus, mut tasks) = (Arc::new(Bus::new(PollInterval::NEVER)), JoinSet::new());
        tasks.spawn(wake::listen(link.clone(), keys.channel().to_owned(), bus.clone()));
        Ok(Self {
            breaker: Breaker::new(link.clone(), doubts.clone()),
            group_commit: GroupCommit::new(adder.clone()),
            plain_enqueuer: adder,
            bus,
            _tasks: tasks,
            scripts,
            fleet_state: registry,
            permissions: rights,
            restrictions_logged: Once::new(),
            durability: server.durability(link.options()),
            connections: link,
            keys,
            clock,
            paused_queues: Mutex::default(),
            prepared: Mutex::default(),
            orphan_scans: OrphanScans::default(),
            repair_cursors: RepairCursors::default(),
            overdue_cursors: OverdueCursors::default(),
            logged_damage: LoggedDamage::default(),
            list_pops: ListPops::default(),
            uncertain_claims: doubts,
            running_untracked: RunningUntracked::default(),
            pruned_streams: AtomicUsize::new(0),
        })
    }

    /// The consumer group of a queue.
    pub(crate) fn group(&self, queue: &Queue) -> &str {
        self.connections.options().group_of(&queue.name)
    }

    /// The reachable shards in random order, so that none is always served first.
    pub(crate) fn reachable_shards(&self) -> Vec<u16> {
        let mut shards = self.breaker.reachable((0..self.keys.shards()).collect());
        fastrand::shuffle(&mut shards);
        shards
    }
}

#[async_trait]
impl Store for RedisStore {
    fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn same_shard(&self, one: &RunId, other: &RunId) -> bool {
        self.keys.shard_of_run(one) == self.keys.shard_of_run(other)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn commands(&self) -> u64 {
        self.connections.commands_sent()
    }
}
