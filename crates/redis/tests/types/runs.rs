//! Verbs about runs.

use std::time::Duration;

use tidemill_core::store::runs::{
    AfterCommit, CloseRun, ConflictPolicy, ContinueAsNew, Delivery as RunDelivery, Effect, EntryKind,
    PruneRunsParams, RunKey, StartRunParams, TerminateParams,
};
use tidemill_core::store::{PromoteParams, SettleParams};
use tidemill_core::workflow::{Route, RunId, RunStatus};
use tidemill_core::{Error, Guarantee};
use tidemill_testkit::conformance::harness::{
    ClaimedTask, activities, activity, completed, event, order_of, signal, timer,
};
use tidemill_testkit::conformance::{LONG, QueueHarness};

use crate::jobs::{SHARD_KEYS, of_queue};
use crate::stage::{Spoiled, Stage};

const VERBS: [&str; 9] =
    ["start_run", "deliver", "commit", "end", "restart", "terminate", "fire", "answer", "prune_runs"];

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

fn run(name: &str) -> StartRunParams {
    order_of(RunId::new(name).unwrap())
}

/// The same on a queue of its own, which may be sound when the usual one is not.
fn apart(run: StartRunParams) -> StartRunParams {
    StartRunParams { queue: run.workflow.queue(Some(&Route::new("eu").unwrap())), ..run }
}

async fn first_task(scene: &QueueHarness, run: StartRunParams) -> ClaimedTask {
    let tasks = QueueHarness { queue: run.queue.clone(), ..scene.clone() };
    scene.start_run(run).await;
    ClaimedTask::new(tasks.claim_one().await)
}

async fn parked(scene: &QueueHarness, run: StartRunParams, effects: Vec<Effect>) {
    let task = first_task(scene, run).await;
    scene.commit(&task, effects, AfterCommit::Running).await;
}

/// Returns a task of `r1` if the verb is about one.
async fn prepare(scene: &QueueHarness, verb: &str) -> Option<ClaimedTask> {
    let r1 = RunId::new("r1").unwrap();
    match verb {
        "start_run" => {}
        "commit" | "end" | "restart" => {
            let effects = vec![activity(&r1, 1), timer(2, scene.after(LONG)), activity(&r1, 3)];
            parked(scene, run("r1"), effects).await;
            scene.signal(&r1, [1]).await;
            return Some(scene.task_of(&r1).await);
        }
        "fire" => {
            // Both are due; the other run is innocent.
            parked(scene, apart(run("r2")), vec![timer(1, scene.after(Duration::ZERO))]).await;
            parked(scene, run("r1"), vec![timer(1, scene.after(Duration::from_millis(1)))]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        "prune_runs" => {
            for run in [apart(run("r2")), run("r1")] {
                let key = Some(RunKey { key: run.run.to_string(), conflict: ConflictPolicy::UseExisting });
                let task = first_task(scene, StartRunParams { keep: Duration::ZERO, key, ..run }).await;
                scene.commit(&task, Vec::new(), completed("1")).await;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        _ => {
            parked(scene, run("r1"), vec![activity(&r1, 1), timer(2, scene.after(LONG))]).await;
            parked(scene, apart(run("r2")), Vec::new()).await;
        }
    }
    None
}

async fn act(scene: &QueueHarness, verb: &str, task: Option<&ClaimedTask>) -> Result<(), Error> {
    let (store, queue) = (&*scene.store, &scene.queue);
    let r1 = RunId::new("r1").unwrap();
    let cancel = Effect::CancelJob(r1.part(1));
    let far = scene.after(LONG);
    match verb {
        "fire" => {
            let queues = [queue.clone()];
            store.promote(PromoteParams { queues: &queues, limit: 100 }).await.map(std::mem::drop)
        }
        "start_run" => {
            let effects = vec![activity(&r1, 1), timer(2, far)];
            let key = Some(RunKey { key: "k".into(), conflict: ConflictPolicy::UseExisting });
            store.start_run(&StartRunParams { effects, key, ..run("r1") }).await.map(std::mem::drop)
        }
        "deliver" => store
            .deliver(&[RunDelivery { id: Some("once".into()), ..signal(&r1, 1) }])
            .await
            .map(std::mem::drop),
        "commit" => {
            let effects = vec![activity(&r1, 4), timer(5, far), cancel, Effect::CancelTimer { seq: 2 }];
            let settlement = task.unwrap().settlement(effects, AfterCommit::Running);
            store.settle(SettleParams::current(&[settlement])).await.map(std::mem::drop)
        }
        "end" => {
            let settlement = task.unwrap().settlement(vec![cancel], completed("1"));
            store.settle(SettleParams::current(&[settlement])).await.map(std::mem::drop)
        }
        "restart" => {
            let first = event(EntryKind::CommandResult, r#"{"started":{}}"#).bytes;
            let restart = AfterCommit::ContinueAsNew(ContinueAsNew { first, id_retention: LONG });
            store
                .settle(SettleParams::current(&[task.unwrap().settlement_upto(0, vec![cancel], restart)]))
                .await
                .map(std::mem::drop)
        }
        "terminate" => {
            let close = CloseRun {
                status: RunStatus::Terminated,
                output: bytes::Bytes::new(),
                error: None,
                notify_parent: None,
            };
            let terminate = TerminateParams { run: &r1, cursor: 1, effects: &[cancel], close: &close };
            store.terminate(terminate).await.map(std::mem::drop)
        }
        "answer" => store.cancel(&r1.part(1)).await.map(std::mem::drop),
        "prune_runs" => store
            .prune_runs(PruneRunsParams { max_kept: 100, min_age: Duration::ZERO })
            .await
            .map(std::mem::drop),
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn a_verb_about_runs_that_fails_for_a_spoiled_key_names_it_and_has_changed_nothing() {
    let (stage, mut wrong) = (Stage::new().await, Vec::new());
    let scene = stage.scene(Guarantee::AtLeastOnce);
    let mut names: Vec<String> = RUN_KEYS.iter().chain(&SHARD_KEYS).map(|key| (*key).to_owned()).collect();
    names.extend(of_queue("workflow:order"));
    names.extend(of_queue(&format!("stream:{}", activities().name)));
    for verb in VERBS {
        let said = stage
            .play_all(
                verb,
                &names,
                async || prepare(&scene, verb).await,
                async |task| act(&scene, verb, task.as_ref()).await,
            )
            .await;
        wrong.extend(said);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn wrong_alarms_of_one_run_damage_no_other() {
    let stage = Stage::new().await;
    let scene = stage.scene(Guarantee::AtLeastOnce);
    for name in ["r2", "r1"] {
        parked(&scene, run(name), vec![timer(1, scene.after(Duration::ZERO))]).await;
    }
    stage.spoil("tidemill:timers-r1", Spoiled::Type).await;
    // Both are told, and both go on.
    for _ in 0..2 {
        let task = scene.task_when_due().await;
        scene.commit(&task, Vec::new(), AfterCommit::Running).await;
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
    let scene = stage.scene(Guarantee::AtLeastOnce);
    parked(&scene, run("damaged"), vec![timer(1, scene.after(Duration::ZERO)), timer(2, scene.after(LONG))])
        .await;
    stage.ask(&["ZADD", "tidemill:timers", "1", "nonsense"]);
    assert_eq!(scene.task_when_due().await.run.as_str(), "damaged");
    assert_eq!(stage.ask(&["ZCARD", "tidemill:timers-damaged"]), "1");
    assert_eq!(stage.ask(&["ZCARD", "tidemill:damaged-timers"]), "1");
}
