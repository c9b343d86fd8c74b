//! A key of the wrong type: a verb that fails for it has changed nothing, because scripts do not roll back.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::redrive::{Letters, drop, redrive};
use tidemill_core::store::runs::{Close, Effect, NewRun, PruneRuns, Terminate, Then};
use tidemill_core::store::{Claimed, Due, Extend, Promote};
use tidemill_core::workflow::{RunId, Status};
use tidemill_core::{Delivery, Error, JobId, Queue, QueueName};
use tidemill_redis::{Options, RedisStore};
use tidemill_testkit::conformance::scene::{
    Task, Traits, activities, activity, completed, dead, done, job, order_of, retry, signal, timer,
};
use tidemill_testkit::conformance::{LONG, Scene};
use tidemill_testkit::servers::Redis;

const JOB_VERBS: [&str; 10] = [
    "finish",
    "retry",
    "bury",
    "extend",
    "cancel",
    "cancel_running",
    "cancel_later",
    "redrive",
    "drop",
    "promote",
];

const RUN_VERBS: [&str; 8] =
    ["start_run", "deliver", "commit", "end", "terminate", "fire", "answer", "prune_runs"];

const QUEUE_PARTS: [&str; 10] = [
    "",
    ":scheduled",
    ":dlq",
    ":paused",
    ":blocked",
    ":cancelled",
    ":dropped",
    ":leases",
    ":running",
    ":purged",
];

const RUN_KEYS: [&str; 16] = [
    "instances-r1",
    "events-r1",
    "seen-r1",
    "timers-r1",
    "effects:r1",
    "instances-r2",
    "events-r2",
    "timers-r2",
    "timers",
    "damaged-timers",
    "runs",
    "runs:order",
    "runs-ended",
    "runs-ended:order",
    "workflows",
    "run-key:order:k",
];

const SHARD_KEYS: [&str; 6] = ["jobs", "waiters", "notices", "errands", "keyed", "queues"];

/// What a verb is about.
#[derive(Default)]
struct Scenery {
    claimed: Option<Claimed>,
    task: Option<Task>,
    id: Option<JobId>,
}

struct Stage {
    redis: Redis,
    store: Arc<RedisStore>,
}

impl Stage {
    async fn new() -> Self {
        let redis = Redis::start().unwrap();
        let store = Arc::new(RedisStore::connect(Options::parse(&redis.url()).unwrap()).await.unwrap());
        Self { redis, store }
    }

    fn ask(&self, command: &[&str]) -> String {
        self.redis.command(command).unwrap()
    }

    fn scene(&self, delivery: Delivery) -> Scene {
        Scene::new(self.store.clone(), Queue { name: QueueName::new("q").unwrap(), delivery })
    }

    /// Every key with all it holds.
    async fn everything(&self) -> Vec<(String, redis::Value)> {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
        keys.sort();
        let mut all = Vec::new();
        for key in keys {
            all.push((key.clone(), redis::cmd("DUMP").arg(key).query_async(&mut connection).await.unwrap()));
        }
        all
    }

    fn spoil(&self, key: &str) {
        let was = self.ask(&["TYPE", key]);
        self.ask(&["DEL", key]);
        match was.as_str() {
            "string" => self.ask(&["HSET", key, "wrong", "type"]),
            _ => self.ask(&["SET", key, "wrong type"]),
        };
    }

    /// Plays a verb with one key spoiled; says what it did wrong.
    async fn play(&self, verb: &str, delivery: Delivery, key: &str) -> Option<String> {
        self.ask(&["FLUSHDB"]);
        let scene = self.scene(delivery);
        let scenery = prepare(&scene, verb).await;
        self.spoil(&format!("tidemill:{key}"));
        let before = self.everything().await;
        let error = act(&scene, verb, &scenery).await.err()?;
        let after = self.everything().await;
        let all = before.iter().chain(&after);
        let changed = all.filter(|one| !(before.contains(one) && after.contains(one)));
        let changed: Vec<_> = changed.map(|(key, _)| key.as_str()).collect();
        (!changed.is_empty())
            .then(|| format!("{verb} with `{key}` spoiled changed {changed:?} and failed: {error}"))
    }
}

fn run(name: &str) -> NewRun {
    order_of(RunId::new(name).unwrap())
}

async fn parked(scene: &Scene, name: &str, effects: Vec<Effect>) {
    let run = scene.start_run(run(name)).await;
    let task = scene.task_of(&run).await;
    scene.commit(&task, effects, Then::GoesOn).await;
}

async fn prepare(scene: &Scene, verb: &str) -> Scenery {
    let r1 = RunId::new("r1").unwrap();
    let mut scenery = Scenery::default();
    match verb {
        "finish" | "retry" | "bury" | "extend" | "cancel_running" => {
            let traits = Traits { keep: Some(LONG), ..Traits::default() };
            scenery.id = Some(scene.enqueue(traits.job()).await);
            scenery.claimed = Some(scene.claim_one().await);
        }
        "cancel" => scenery.id = Some(scene.enqueue(job()).await),
        "cancel_later" | "promote" => {
            let due = if verb == "promote" { Duration::from_millis(1) } else { LONG };
            scenery.id = Some(scene.enqueue(Traits { due: Due::In(due), ..Traits::default() }.job()).await);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        "redrive" | "drop" => scenery.id = Some(scene.bury(&Traits::default(), "bad").await),
        "start_run" => {}
        "commit" | "end" => {
            parked(scene, "r1", vec![activity(&r1, 1), timer(2, scene.after(LONG)), activity(&r1, 3)]).await;
            scene.signal(&r1, [1]).await;
            scenery.task = Some(scene.task_of(&r1).await);
        }
        "fire" => {
            // Both are due; the other run is innocent.
            parked(scene, "r2", vec![timer(1, scene.after(Duration::ZERO))]).await;
            parked(scene, "r1", vec![timer(1, scene.after(Duration::from_millis(1)))]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        "prune_runs" => {
            for name in ["r1", "r2"] {
                let run = scene.start_run(NewRun { keep: Duration::ZERO, ..run(name) }).await;
                let task = scene.task_of(&run).await;
                scene.commit(&task, Vec::new(), completed("1")).await;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        _ => {
            parked(scene, "r1", vec![activity(&r1, 1), timer(2, scene.after(LONG))]).await;
            parked(scene, "r2", Vec::new()).await;
        }
    }
    scenery
}

async fn act(scene: &Scene, verb: &str, scenery: &Scenery) -> Result<(), Error> {
    let (store, queue) = (&*scene.store, &scene.queue);
    let r1 = RunId::new("r1").unwrap();
    let settle = |outcome| [scene.settlement(scenery.claimed.as_ref().unwrap(), outcome)];
    let cancel = Effect::CancelJob(r1.part(1));
    let (far, all) = (scene.after(LONG), Letters::default());
    match verb {
        "finish" => store.settle(&settle(done())).await.map(std::mem::drop),
        "retry" => store.settle(&settle(retry(Duration::ZERO))).await.map(std::mem::drop),
        "bury" => store.settle(&settle(dead("bad"))).await.map(std::mem::drop),
        "extend" => {
            let leases = [scenery.claimed.as_ref().unwrap().lease.clone()];
            let extend = Extend { worker: &scene.worker, leases: &leases, lease: scene.lease };
            store.extend(extend).await.map(std::mem::drop)
        }
        "cancel" | "cancel_running" | "cancel_later" => {
            store.cancel(scenery.id.as_ref().unwrap()).await.map(std::mem::drop)
        }
        "redrive" => redrive(store, queue, &all).await.map(std::mem::drop),
        "drop" => drop(store, queue, &all).await.map(std::mem::drop),
        "promote" | "fire" => {
            let queues = [queue.clone()];
            store.promote(Promote { queues: &queues, limit: 100 }).await.map(std::mem::drop)
        }
        "start_run" => {
            let effects = vec![activity(&r1, 1), timer(2, far)];
            store.start_run(&NewRun { effects, ..run("r1") }).await.map(std::mem::drop)
        }
        "deliver" => store.deliver(&[signal(&r1, 1)]).await.map(std::mem::drop),
        "commit" => {
            let effects = vec![activity(&r1, 4), timer(5, far), cancel, Effect::DropAlarm { seq: 2 }];
            let settlement = scenery.task.as_ref().unwrap().settlement(effects, Then::GoesOn);
            store.settle(&[settlement]).await.map(std::mem::drop)
        }
        "end" => {
            let settlement = scenery.task.as_ref().unwrap().settlement(vec![cancel], completed("1"));
            store.settle(&[settlement]).await.map(std::mem::drop)
        }
        "terminate" => {
            let close =
                Close { status: Status::Terminated, output: bytes::Bytes::new(), error: None, told: None };
            let terminate = Terminate { run: &r1, cursor: 1, effects: &[cancel], close: &close };
            store.terminate(terminate).await.map(std::mem::drop)
        }
        "answer" => store.cancel(&r1.part(1)).await.map(std::mem::drop),
        "prune_runs" => {
            store.prune_runs(PruneRuns { most: 100, min_age: Duration::ZERO }).await.map(std::mem::drop)
        }
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn a_verb_about_jobs_that_fails_for_a_key_of_the_wrong_type_has_changed_nothing() {
    let (stage, mut wrong) = (Stage::new().await, Vec::new());
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let target = if delivery == Delivery::AtLeastOnce { "stream:q" } else { "queue:q" };
        let of_queue = QUEUE_PARTS.iter().map(|part| format!("{target}{part}"));
        let keys: Vec<String> = of_queue.chain(SHARD_KEYS.map(str::to_owned)).collect();
        for verb in JOB_VERBS {
            for key in &keys {
                wrong.extend(stage.play(verb, delivery, key).await);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_verb_about_runs_that_fails_for_a_key_of_the_wrong_type_has_changed_nothing() {
    let (stage, mut wrong) = (Stage::new().await, Vec::new());
    let activities = format!("stream:{}", activities().name);
    let of_queue = |target: &str| QUEUE_PARTS.map(|part| format!("{target}{part}"));
    let mut keys: Vec<String> = RUN_KEYS.iter().chain(&SHARD_KEYS).map(|key| (*key).to_owned()).collect();
    keys.extend(of_queue("workflow:order"));
    keys.extend(of_queue(&activities));
    for verb in RUN_VERBS {
        for key in &keys {
            wrong.extend(stage.play(verb, Delivery::AtLeastOnce, key).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn wrong_alarms_of_one_run_damage_no_other() {
    let stage = Stage::new().await;
    let scene = stage.scene(Delivery::AtLeastOnce);
    prepare(&scene, "fire").await;
    stage.spoil("tidemill:timers-r1");
    // Both are told, and both go on.
    for _ in 0..2 {
        let task = scene.task_when_due().await;
        scene.commit(&task, Vec::new(), Then::GoesOn).await;
    }
    for name in ["r1", "r2"] {
        let run = RunId::new(name).unwrap();
        scene.signal(&run, [1]).await;
        assert_eq!(scene.task_of(&run).await.signals(), [1]);
    }
}

#[tokio::test]
async fn a_run_may_be_called_damaged() {
    let stage = Stage::new().await;
    let scene = stage.scene(Delivery::AtLeastOnce);
    parked(&scene, "damaged", vec![timer(1, scene.after(Duration::ZERO)), timer(2, scene.after(LONG))]).await;
    stage.ask(&["ZADD", "tidemill:timers", "1", "nonsense"]);
    assert_eq!(scene.task_when_due().await.run.as_str(), "damaged");
    assert_eq!(stage.ask(&["ZCARD", "tidemill:timers-damaged"]), "1");
    assert_eq!(stage.ask(&["ZCARD", "tidemill:damaged-timers"]), "1");
}
