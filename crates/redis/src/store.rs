//! The store: what it is made of, how it is opened, and which part does what.

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
use tidemill_core::wake::WakeStream;
use tidemill_core::workflow::RunId;
use tidemill_core::{Clock, Error, HolderId, JobId, Queue, Store};
use tokio::time::Instant;

use crate::acl::Rights;
use crate::clock::ServerClock;
use crate::connection::Link;
use crate::connection::breaker::Breaker;
use crate::connection::keys::Keys;
use crate::connection::script::Scripts;
use crate::fleet::Registry;
use crate::inspect::checkup::Server;
use crate::inspect::damage::Complaints;
use crate::jobs::{Adder, Clerk, Cursors, Doubts, Noted, Orphans, Pops, Receipts, Rounds};
use crate::options::Options;
use crate::wake::Waker;

/// Jobs in Redis or Valkey.
#[derive(Debug)]
pub struct RedisStore {
    pub(crate) link: Arc<Link>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) waker: Waker,
    pub(crate) adder: Arc<Adder>,
    pub(crate) clerk: Clerk,
    pub(crate) registry: Registry,
    durability: Durability,
    /// What the user of the URL may not do.
    pub(crate) rights: Rights,
    /// A worker says once what it does without.
    pub(crate) restrictions_logged: Once,
    /// Queues that this process has paused or seen paused, with when to look again.
    pub(crate) paused: Mutex<HashMap<Queue, Instant>>,
    /// Streams whose group exists and whose rescuers know this worker's lease.
    pub(crate) prepared: Mutex<HashSet<(Queue, u16, HolderId)>>,
    /// Jobs of lists that nobody seems to have.
    pub(crate) orphans: Orphans,
    /// How far the index has been looked at for jobs that are gone.
    pub(crate) cursors: Cursors,
    /// Which queues the next look for expired leases asks about.
    pub(crate) rounds: Rounds,
    /// What is damaged and has been logged.
    pub(crate) complaints: Complaints,
    /// Pops from lists, and what became of their answers.
    pub(crate) pops: Pops,
    /// Workers some of whose claims may have taken more than they returned.
    pub(crate) doubts: Arc<Doubts>,
    /// Shards whose servers do not answer.
    pub(crate) breaker: Breaker,
    pub(crate) noted: Noted,
    /// How many streams were pruned, for whose turn it is next.
    pub(crate) pruned_streams: AtomicUsize,
}

impl RedisStore {
    /// Connects, and refuses a server that would lose jobs or does not know what is needed.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let keys = Arc::new(Keys::new(&options));
        let link = Arc::new(Link::connect(options, keys.clone()).await?);
        let server = Server::ask(&link).await?;
        server.check(link.options())?;
        let flags = server.version >= (7, 0);
        let scripts = Arc::new(Scripts::new(flags));
        let registry = Registry::new(flags);
        let rights = link.rights().await?;
        rights.check()?;
        let clock = Arc::new(ServerClock::default());
        clock.set(link.time(0).await?);
        let (of_jobs, of_fleet) = (scripts.clone(), registry.scripts());
        link.refuse(move |rights| rights.refused(of_jobs.iter().chain(of_fleet.iter())));
        let adder = Arc::new(Adder {
            link: link.clone(),
            keys: keys.clone(),
            scripts: scripts.clone(),
            clock: clock.clone(),
            receipts: Receipts::new(),
        });
        let doubts = Arc::<Doubts>::default();
        Ok(Self {
            breaker: Breaker::new(link.clone(), doubts.clone()),
            clerk: Clerk::new(adder.clone()),
            adder,
            waker: Waker::new(link.clone(), keys.channel().to_owned()),
            scripts,
            registry,
            rights,
            restrictions_logged: Once::new(),
            durability: server.durability(link.options()),
            link,
            keys,
            clock,
            paused: Mutex::default(),
            prepared: Mutex::default(),
            orphans: Orphans::default(),
            cursors: Cursors::default(),
            rounds: Rounds::default(),
            complaints: Complaints::default(),
            pops: Pops::default(),
            doubts,
            noted: Noted::default(),
            pruned_streams: AtomicUsize::new(0),
        })
    }

    /// The consumer group of a queue.
    pub(crate) fn group(&self, queue: &Queue) -> &str {
        self.link.options().group_of(&queue.name)
    }

    /// The shards that answer, in random order, so that none is always the first to be served.
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
        self.doubts.contain(queue, worker)
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
        self.redrive_letters(redrive).await
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.delete_letters(queue, jobs).await
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
        self.prune_traces(queues).await
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
        self.known_queues().await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.examine().await
    }

    async fn fix(&self) -> Result<Vec<Finding>, Error> {
        self.fix_damage().await
    }

    fn subscribe(&self) -> WakeStream {
        self.waker.listen()
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
        self.begin_run(run).await
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
        self.remove_ended(prune).await
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
        self.link.sent()
    }
}
