//! Verbs that a client repeats by itself after a lost answer: whichever answer is lost, the caller
//! receives a correct result.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::value::RawValue;
use tidemill::chain::{Completion, Continuation};
use tidemill::fleet::{AttachParams, SessionId, WorkerKind};
use tidemill::store::{Cancelled, Completed, Deleted};
use tidemill::workflow::{EntryContent, Json, RunStatus};
use tidemill::workflow::{OnConflict, RunWorkflows, StartWorkflows};
use tidemill::{
    Client, Ctx, DeadLetterFilter, JobId, Kind, PageParams, Queue, QueueName, RunHandle, RunId, Worker,
    Workflow, hours,
};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::conformance::harness::{FleetHarness, dead};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::servers::{Redis, shared_postgres};
use tokio_util::sync::CancellationToken;

const MAIN: Workflow<u64, u64> = Workflow::new("main");

/// No scenario makes as many requests.
const REQUESTS: usize = 60;

/// A client that loses answers, and one that does not.
struct World {
    proxy: Proxy,
    through: Client,
    beside: Client,
    url: String,
    _redis: Option<Redis>,
}

impl World {
    async fn redis() -> Self {
        let redis = Redis::start().unwrap();
        let (url, port) = (redis.url(), redis.port());
        Self::new(url, port, Some(redis)).await
    }

    async fn postgres() -> Self {
        let server = shared_postgres();
        Self::new(server.database().unwrap(), server.port(), None).await
    }

    async fn new(url: String, port: u16, redis: Option<Redis>) -> Self {
        let proxy = Proxy::to(port).await.unwrap();
        let (through, beside) = (tidemill::connect(&proxy.url(&url)).await, tidemill::connect(&url).await);
        Self { through: through.unwrap(), beside: beside.unwrap(), proxy, url, _redis: redis }
    }

    /// Runs a scenario again and again, each time losing the answer to another of its requests,
    /// until all were lost once.
    async fn lose_each(&self, mut scene: impl AsyncFnMut(String)) {
        for number in 0..REQUESTS {
            let dropped = self.proxy.answers_dropped();
            self.proxy.drop_answer_after(number);
            scene(format!("n{number}")).await;
            self.proxy.drop_nothing();
            if self.proxy.answers_dropped() == dropped {
                assert!(number > 0, "nothing was lost");
                return;
            }
        }
        panic!("it takes more than {REQUESTS} requests");
    }

    fn queue(&self) -> Queue {
        Queue::at_least_once(QueueName::new("default").unwrap())
    }

    async fn job(&self) -> JobId {
        let job = self.beside.untyped("k", RawValue::from_string("1".into()).unwrap());
        job.keep_result(hours(1)).enqueue().await.unwrap().id().clone()
    }

    async fn status<O>(&self, run: &RunHandle<O>) -> RunStatus {
        self.beside.store().get_run(run.id()).await.unwrap().unwrap().status
    }
}

async fn runs_are_started_once_and_the_answer_is_true(world: World) {
    let start = |client: &Client, name: &str| client.untyped_workflow("other", Json::null()).id(name);
    world
        .lose_each(async |name| {
            let run = start(&world.through, &name).on_conflict(OnConflict::Reject).start().await.unwrap();
            assert!(run.created(), "{name}");
        })
        .await;
    // A run that another client has started does not count as this call's own.
    world
        .lose_each(async |name| {
            start(&world.beside, &format!("x{name}")).start().await.unwrap();
            let refused = start(&world.through, &format!("x{name}")).on_conflict(OnConflict::Reject).start();
            assert!(refused.await.is_err(), "{name}");
        })
        .await;
    world
        .lose_each(async |name| {
            let key = |client: &Client| client.untyped_workflow("other", Json::null()).key(&name);
            let old = key(&world.beside).start().await.unwrap();
            let new = key(&world.through).on_conflict(OnConflict::TerminateExisting).start().await.unwrap();
            assert!(new.created() && new.id() != old.id(), "{name}");
            assert_eq!(world.status(&old).await, RunStatus::Terminated);
            assert_eq!(world.status(&new).await, RunStatus::Running);
        })
        .await;
    world
        .lose_each(async |name| {
            start(&world.beside, &format!("t{name}")).start().await.unwrap();
            let run = world.through.untyped_run_handle(RunId::new(&format!("t{name}")).unwrap());
            run.terminate("enough").await.unwrap();
        })
        .await;
}

async fn a_reset_leaves_no_run_behind(world: World) {
    let stop = CancellationToken::new();
    let worker = Worker::builder(&world.beside).workflow(&MAIN, async |ctx: Ctx, n: u64| {
        ctx.sleep(hours(1)).await?;
        Ok(n)
    });
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    world
        .lose_each(async |name| {
            let run = world.beside.workflow(&MAIN, 1).id(&name).start().await.unwrap();
            let first = loop {
                let journal = run.journal().await.unwrap();
                let mut entries = journal.entries.iter().zip(journal.base + 1..);
                match entries.find(|(entry, _)| matches!(entry.content, EntryContent::Commit(_))) {
                    Some((_, position)) => break position,
                    None => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            };
            let again = world.through.run_handle(&MAIN, run.id().clone()).reset(first).await.unwrap();
            assert_eq!(world.status(&run).await, RunStatus::Terminated);
            assert_eq!(world.status(&again).await, RunStatus::Running);
        })
        .await;
    stop.cancel();
    worker.await.unwrap().unwrap();
}

async fn verbs_on_jobs_take_place_once(world: World) {
    let (through, beside) = (&world.through, &world.beside);
    let next = || {
        let payload = RawValue::from_string("2".into()).unwrap();
        let next = Continuation::untyped(Kind::new("k2").unwrap(), world.queue().name, &payload);
        Completion::Continue(Box::new(next))
    };
    world
        .lose_each(async |name| {
            let job = world.job().await;
            assert_eq!(through.complete_untyped(&job, None, next()).await.unwrap(), Completed::Yes, "{name}");
            assert_eq!(beside.store().get_job(&job).await.unwrap().unwrap().job.step(), 1, "{name}");
        })
        .await;
    world
        .lose_each(async |name| {
            let job = world.job().await;
            let end = Completion::Output("3".into());
            assert_eq!(through.complete_untyped(&job, None, end).await.unwrap(), Completed::Yes, "{name}");
        })
        .await;
    world
        .lose_each(async |name| {
            let job = world.job().await;
            assert_eq!(through.cancel(&job).await.unwrap(), Cancelled::Removed, "{name}");
        })
        .await;
    world
        .lose_each(async |name| {
            let job = world.job().await;
            assert_eq!(through.delete(&job).await.unwrap(), Deleted::Yes, "{name}");
        })
        .await;
    world
        .lose_each(async |_| {
            let queue = through.queue(world.queue().name.as_str());
            queue.pause().await.unwrap();
            queue.resume().await.unwrap();
            world.job().await;
            let purged = queue.purge().await.unwrap();
            assert!(purged.jobs > 0 || purged.maybe_more);
        })
        .await;
}

async fn letters_are_moved_once(world: World) {
    let scene = QueueHarness::new(world.beside.store().clone(), world.queue());
    for is_drop in [false, true] {
        world
            .lose_each(async |name| {
                let job = world.job().await;
                scene.settle(&scene.claim_one().await, dead("bad")).await;
                let dead = world.through.dead_letters(world.queue().name.as_str());
                let letters = DeadLetterFilter::all().jobs([job.clone()]);
                let moved = match is_drop {
                    true => dead.drop(&letters).await.unwrap(),
                    false => dead.redrive(&letters).await.unwrap(),
                };
                assert_eq!(moved, 1, "{name}");
                if !is_drop {
                    world.beside.cancel(&job).await.unwrap();
                }
            })
            .await;
    }
}

async fn orders_to_the_fleet_are_repeated(world: World) {
    let (gateway, fleet) = (FleetHarness::new(world.beside.store().clone()), world.through.fleet());
    world
        .lose_each(async |name| {
            let worker = gateway.join(&name, 1, 10).await;
            let session = gateway.lease_params();
            gateway.lease_granted(&session).await;
            let kept = AttachParams {
                connected: false,
                keep: hours(1),
                ..gateway.attach_params(&session.session, &worker)
            };
            gateway.attach(&kept).await;
            assert_eq!(fleet.session(&session.session).await.unwrap().unwrap().worker, worker);
            assert_eq!(fleet.sessions(Some(&worker), PageParams::first(9)).await.unwrap().items.len(), 1);
            assert!(fleet.waiting().await.unwrap().is_empty());
            // No client is connected, so the session ends at once. A second call does not find it.
            assert!(fleet.close(&session.session).await.unwrap(), "{name}");
            assert!(fleet.session(&session.session).await.unwrap().is_none());
            assert!(fleet.drain(&worker).await.unwrap(), "{name}");
            assert!(fleet.worker(&worker).await.unwrap().unwrap().drain_ordered);
            let kind = WorkerKind::chromium();
            let workers = fleet.workers(Some(&kind), PageParams::first(9)).await.unwrap();
            assert_eq!(workers.items.len(), 1, "{name}");
            gateway.fleet().part(&[worker]).await.unwrap();
        })
        .await;
    let unknown = SessionId::generate();
    assert!(!fleet.close(&unknown).await.unwrap());
}

async fn a_connection_that_is_cut_off_while_it_is_opened_is_opened_again(world: World) {
    let url = world.proxy.url(&world.url);
    world.lose_each(async |_| drop(tidemill::connect(&url).await.unwrap())).await;
}

macro_rules! on_each_store {
    ($($case:ident),*) => {
        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::World::redis().await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::World::postgres().await).await;
            })*
        }
    };
}

on_each_store!(
    runs_are_started_once_and_the_answer_is_true,
    a_reset_leaves_no_run_behind,
    verbs_on_jobs_take_place_once,
    letters_are_moved_once,
    orders_to_the_fleet_are_repeated,
    a_connection_that_is_cut_off_while_it_is_opened_is_opened_again
);
