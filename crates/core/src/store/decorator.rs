//! A store that changes some verbs of another store and forwards the rest.
//!
//! For tests: planned faults, kill points, counters. [`Decorator`] has every method of the contract,
//! with a default that forwards it. What implements `Decorator` is a [`Store`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::fleet::{
    AttachParams, Attached, BeatParams, LeaseParams, Leased, ListSessionsParams, ListWorkersParams, Reaped,
    ReleaseParams, SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerOrders,
};
use super::runs::{
    Delivered, Delivery, ListRunsParams, PruneRunsParams, ReadJournalParams, RunInfo, StartRunParams,
    StartRunResult, StoredEntry, TerminateParams,
};
use super::{
    Bus, Cancelled, Checkup, ClaimParams, Claimed, ClockStep, CompleteParams, Completed, Deleted, Durability,
    EnqueueParams, Enqueued, Error, ExpiredLeases, ExtendParams, Extended, Finding, Fleet, Inspect, JobInfo,
    Jobs, ListExpiredParams, ListJobsParams, Page, PromoteParams, Promoted, Pruned, QueueInfo, Queues,
    RecoverParams, RedriveParams, Runs, SettleParams, StartParams, Store, Verdict,
};
use crate::clock::Clock;
use crate::fleet::{SessionId, WorkerDefaults, WorkerKey};
use crate::name::{HolderId, JobId, Queue};
use crate::workflow::{RunId, WorkflowName};

/// Declares [`Decorator`] with a forwarding default for each method, and implements each trait of
/// the contract by it.
macro_rules! decorator {
    ($($contract:ident {
        $(async fn $verb:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty;)*
        $(fn $query:ident(&self $(, $query_arg:ident: $query_type:ty)*) -> $answer:ty;)*
    })*) => {
        /// A store around another store. Import the traits of the contract to call its methods,
        /// not this one: the names are the same.
        #[async_trait]
        pub trait Decorator: fmt::Debug + Send + Sync + 'static {
            /// The decorated store.
            fn inner(&self) -> &dyn Store;
            $(
                $(
                    #[doc = concat!("Like [`", stringify!($contract), "::", stringify!($verb), "`].")]
                    async fn $verb(&self $(, $arg: $type)*) -> $result {
                        self.inner().$verb($($arg),*).await
                    }
                )*
                $(
                    #[doc = concat!("Like [`", stringify!($contract), "::", stringify!($query), "`].")]
                    fn $query(&self $(, $query_arg: $query_type)*) -> $answer {
                        self.inner().$query($($query_arg),*)
                    }
                )*
            )*
        }
        $(
            #[async_trait]
            impl<D: Decorator> $contract for D {
                $(
                    async fn $verb(&self $(, $arg: $type)*) -> $result {
                        Decorator::$verb(self $(, $arg)*).await
                    }
                )*
                $(
                    fn $query(&self $(, $query_arg: $query_type)*) -> $answer {
                        Decorator::$query(self $(, $query_arg)*)
                    }
                )*
            }
        )*
    };
}

decorator! {
    Jobs {
        async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error>;
        async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error>;
        async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error>;
        async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error>;
        async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error>;
        async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error>;
        async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error>;
        async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error>;
        async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error>;
        async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error>;
        async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error>;
        async fn delete(&self, chain: &JobId) -> Result<Deleted, Error>;
        async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error>;
        async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error>;
        async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error>;
        async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error>;
        fn needs_recover(&self, queue: &Queue, worker: &HolderId) -> bool;
    }
    Queues {
        async fn register(&self, queues: &[Queue]) -> Result<(), Error>;
        async fn discover_queues(&self) -> Result<Vec<Queue>, Error>;
        async fn pause(&self, queue: &Queue) -> Result<(), Error>;
        async fn resume(&self, queue: &Queue) -> Result<(), Error>;
        async fn purge(&self, queue: &Queue) -> Result<u64, Error>;
        async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error>;
    }
    Runs {
        async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error>;
        async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error>;
        async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error>;
        async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error>;
        async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error>;
        async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error>;
        async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error>;
        async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error>;
    }
    Fleet {
        async fn join(&self, workers: &[WorkerEntry]) -> Result<(), Error>;
        async fn beat(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error>;
        async fn part(&self, workers: &[WorkerKey]) -> Result<(), Error>;
        async fn lease(&self, lease: &LeaseParams) -> Result<Leased, Error>;
        async fn attach(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error>;
        async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error>;
        async fn close(&self, session: &SessionId) -> Result<bool, Error>;
        async fn drain(&self, worker: &WorkerKey) -> Result<bool, Error>;
        async fn reap(&self, defaults: Option<WorkerDefaults>) -> Result<Reaped, Error>;
        async fn get_worker(&self, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error>;
        async fn list_workers(&self, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error>;
        async fn get_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error>;
        async fn list_sessions(&self, list: ListSessionsParams<'_>) -> Result<Page<SessionInfo>, Error>;
        async fn list_waiting(&self) -> Result<Vec<WaitingInfo>, Error>;
    }
    Inspect {
        async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error>;
        async fn search_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error>;
        async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error>;
        async fn checkup(&self) -> Result<Checkup, Error>;
        async fn fix(&self) -> Result<Vec<Finding>, Error>;
    }
    Store {
        fn same_shard(&self, one: &RunId, other: &RunId) -> bool;
        fn bus(&self) -> &Arc<Bus>;
        fn as_any(&self) -> &dyn Any;
        fn clock(&self) -> &dyn Clock;
        fn durability(&self) -> Durability;
        fn commands(&self) -> u64;
    }
}
