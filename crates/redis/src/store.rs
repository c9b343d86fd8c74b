//! The Redis store: its parts, opening it, and the implementation of `Store`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Once};

use async_trait::async_trait;
use tidemill_core::settle::Settlement;
use tidemill_core::store::Fleet;
use tidemill_core::store::runs::{
    Delivered, Delivery, ListRunsParams, PruneRunsParams, ReadJournalParams, RunInfo, StartRunParams,
    StartRunResult, StoredEntry, TerminateParams,
};
use tidemill_core::store::{
    Cancelled, Checkup, ClaimParams, Claimed, CompleteParams, Completed, Deleted, Durability, EnqueueParams,
    Enqueued, ExpiredLeases, ExtendParams, Extended, Finding, JobInfo, ListExpiredParams, ListJobsParams,
    Page, PromoteParams, Promoted, Pruned, QueueInfo, RecoverParams, RedriveParams, StartParams, Verdict,
};
use tidemill_core::wake::{Bus, PollInterval};
use tidemill_core::workflow::RunId;
use tidemill_core::{Clock, Error, HolderId, JobId, Queue, Store};
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
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        self.enqueue_jobs(enqueue).await
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.claim_jobs(claim).await
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.recover_claims(recover).await
    }

    fn needs_recover(&self, queue: &Queue, worker: &HolderId) -> bool {
        self.uncertain_claims.contains(queue, worker)
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        self.start_jobs(start).await
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        self.extend_leases(extend).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.settle_claims(settlements).await
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        self.promote_due(promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        self.expired_leases(expired).await
    }

    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.rescue_claims(settlements).await
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        self.cancel_job(job).await
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        self.redrive_dead_letters(redrive).await
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.drop_dead_letters(queue, jobs).await
    }

    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        self.pause_queue(queue).await
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        self.resume_queue(queue).await
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        self.purge_queue(queue).await
    }

    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        self.prune_leftovers(queues).await
    }

    async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        self.register(queues).await
    }

    async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        self.remove_worker(worker, queues).await
    }

    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.find_job(job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        self.list_jobs(list).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.queue_infos().await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.run_checkup().await
    }

    async fn fix(&self) -> Result<Vec<Finding>, Error> {
        self.fix_damage().await
    }

    fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        self.complete_job(complete).await
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        self.delete_chain(chain).await
    }

    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        self.start_new_run(run).await
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        self.deliver_events(deliveries).await
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        self.terminate_run(terminate).await
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        self.read_journal(read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        self.find_run(run).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.list_runs(list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        self.prune_ended_runs(prune).await
    }

    fn same_shard(&self, one: &RunId, other: &RunId) -> bool {
        self.keys.shard_of_run(one) == self.keys.shard_of_run(other)
    }

    fn fleet(&self) -> &dyn Fleet {
        self
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
