//! Verbs about jobs and chains.

use std::collections::HashSet;
use std::time::Duration;

use tidemill_core::chain::{Continuation, Dedup, JobLinks};
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead, redrive};
use tidemill_core::job::JobState;
use tidemill_core::settle::Outcome;
use tidemill_core::settle::expired;
use tidemill_core::store::{
    ClaimParams, Claimed, CompleteParams, Due, EnqueueParams, ExtendParams, ListJobsParams, NewJob,
    PromoteParams, RecoverParams, SettleParams, StartParams,
};
use tidemill_core::{Error, Guarantee, JobId};
use tidemill_testkit::conformance::harness::{
    JobSpec, chain, chain_after, chain_once, continue_with, dead, done, job, next, output, retry,
};
use tidemill_testkit::conformance::{LONG, QueueHarness, SHORT};

use crate::stage::Stage;

const VERBS: [&str; 36] = [
    "enqueue_plain",
    "enqueue_id",
    "enqueue_later",
    "enqueue_mixed",
    "enqueue_untracked",
    "enqueue_after",
    "enqueue_once",
    "claim",
    "recover",
    "start",
    "extend",
    "finish",
    "finish_two",
    "finish_awaited",
    "retry",
    "bury",
    "hand_back",
    "continue",
    "continue_after",
    "cancel",
    "cancel_running",
    "cancel_later",
    "cancel_blocked",
    "complete",
    "delete",
    "redrive",
    "drop",
    "promote",
    "rescue",
    "pause",
    "resume",
    "purge",
    "prune",
    "leave",
    "queues",
    "list",
];

/// Verbs of several scripts: what those before the one that fails have done is whole, and is done again or undone by others.
const OF_STEPS: [&str; 4] = ["enqueue_after", "enqueue_once", "claim", "purge"];

const QUEUE_PARTS: [&str; 11] = [
    "",
    ":scheduled",
    ":dlq",
    ":paused",
    ":blocked",
    ":cancelled",
    ":dropped",
    ":leases",
    ":running",
    ":takers",
    ":purged",
];

pub(crate) const SHARD_KEYS: [&str; 7] =
    ["jobs", "waiters", "notices", "errands", "keyed", "reserved", "queues"];

/// The keys of a queue, by the name of its stream or list.
pub(crate) fn of_queue(target: &str) -> Vec<String> {
    QUEUE_PARTS.iter().map(|part| format!("{target}{part}")).collect()
}

/// What a verb is about.
#[derive(Default)]
struct Scenery {
    claimed: Vec<Claimed>,
    ids: Vec<JobId>,
}

impl Scenery {
    fn id(&self) -> &JobId {
        &self.ids[0]
    }
}

fn kept() -> NewJob {
    JobSpec { keep: Some(LONG), ..JobSpec::default() }.job()
}

fn later(due: Duration) -> NewJob {
    JobSpec { due: Due::In(due), ..JobSpec::default() }.job()
}

fn after(blocker: &JobId) -> Continuation {
    Continuation { after: vec![blocker.clone()], ..next("second") }
}

/// Chains are made for streams only.
fn is_for(verb: &str, delivery: Guarantee) -> bool {
    let tied = ["enqueue_after", "enqueue_once", "finish_awaited", "cancel_blocked"];
    delivery == Guarantee::AtLeastOnce || !tied.contains(&verb)
}

async fn prepare(scene: &QueueHarness, verb: &str) -> Scenery {
    let mut scenery = Scenery::default();
    match verb {
        "enqueue_after" => scenery.ids.push(scene.enqueue(chain()).await),
        "claim" => {
            scenery.ids.push(scene.enqueue(job()).await);
            scene.enqueue(job()).await;
            // Of a list, whoever pops it drops it.
            scene.store.cancel(scenery.id()).await.unwrap();
        }
        "start" => {
            scene.enqueue(job()).await;
            scenery.claimed = scene.claim_with(1, 0, Duration::ZERO).await;
        }
        "finish" | "retry" | "bury" | "extend" | "hand_back" | "continue" | "cancel_running" | "complete"
        | "leave" | "recover" => {
            scenery.ids.push(scene.enqueue(kept()).await);
            scenery.claimed.push(scene.claim_one().await);
        }
        "finish_two" => {
            scene.enqueue(kept()).await;
            scene.enqueue(kept()).await;
            scenery.claimed = scene.claim(2).await;
        }
        "finish_awaited" => {
            let first = chain_once(Dedup::open("k"));
            scenery.ids.push(scene.enqueue(first).await);
            scene.enqueue(chain_after(&scenery.ids)).await;
            scenery.claimed.push(scene.claim_one().await);
        }
        "continue_after" => {
            scenery.ids.push(scene.enqueue(later(LONG)).await);
            scene.enqueue(kept()).await;
            scenery.claimed.push(scene.claim_one().await);
        }
        "cancel_blocked" => {
            let blocker = scene.enqueue(chain()).await;
            scenery.ids.push(scene.enqueue(chain_after(&[blocker])).await);
        }
        "cancel" | "delete" | "list" => scenery.ids.push(scene.enqueue(job()).await),
        "purge" | "prune" | "queues" => {
            scene.enqueue(job()).await;
            scene.enqueue(later(LONG)).await;
        }
        "cancel_later" => scenery.ids.push(scene.enqueue(later(LONG)).await),
        "promote" => {
            scene.enqueue(later(Duration::from_millis(1))).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        "redrive" | "drop" => scenery.ids.push(scene.bury(&JobSpec::default(), "bad").await),
        "resume" => {
            scene.enqueue(job()).await;
            scene.store.pause(&scene.queue).await.unwrap();
        }
        "rescue" => {
            let brief = scene.clone().with_lease(SHORT);
            brief.enqueue(job()).await;
            brief.enqueue(job()).await;
            scenery.claimed = brief.claim(2).await;
            brief.expire(2).await;
        }
        _ => {}
    }
    scenery
}

async fn act(scene: &QueueHarness, verb: &str, scenery: &Scenery) -> Result<(), Error> {
    let (store, queue, worker) = (&*scene.store, &scene.queue, &scene.worker);
    let queues = [queue.clone()];
    let add = async |jobs: &[NewJob]| store.enqueue(EnqueueParams { queue, jobs }).await.map(std::mem::drop);
    let settle = async |outcome: &dyn Fn() -> Outcome| {
        let all: Vec<_> = scenery.claimed.iter().map(|one| scene.settlement(one, outcome())).collect();
        store.settle(SettleParams::current(&all)).await.map(std::mem::drop)
    };
    let leases: Vec<_> = scenery.claimed.iter().map(|claimed| claimed.lease.clone()).collect();
    match verb {
        "enqueue_plain" => add(&[NewJob { generated_id: true, ..job() }]).await,
        "enqueue_id" => add(&[JobSpec::default().job_with_id(JobId::new("a").unwrap())]).await,
        "enqueue_later" => add(&[later(LONG)]).await,
        "enqueue_mixed" => add(&[job(), later(LONG), job()]).await,
        "enqueue_untracked" => {
            add(&[JobSpec::default().untracked()]).await?;
            add(&[JobSpec::default().untracked(), JobSpec::default().untracked()]).await
        }
        "enqueue_after" => {
            let links = JobLinks { after: scenery.ids.clone(), dedup: Some(Dedup::open("k")) };
            add(&[NewJob { links, ..chain_once(Dedup::open("k")) }]).await
        }
        "enqueue_once" => add(&[chain_once(Dedup::open("k"))]).await,
        "claim" => store.claim(ClaimParams::now(queue, worker, LONG, 2)).await.map(std::mem::drop),
        "recover" => {
            let known = &HashSet::new();
            store
                .recover(RecoverParams { queue, worker, lease: LONG, known_leases: known })
                .await
                .map(std::mem::drop)
        }
        "start" => store.start(StartParams { worker, leases: &leases }).await.map(std::mem::drop),
        "extend" => {
            store.extend(ExtendParams { worker, leases: &leases, lease: LONG }).await.map(std::mem::drop)
        }
        "finish" | "finish_two" => settle(&done).await,
        "finish_awaited" => settle(&|| output("1")).await,
        "retry" => settle(&|| retry(Duration::ZERO)).await,
        "bury" => settle(&|| dead("bad")).await,
        "hand_back" => settle(&|| Outcome::HandedBack).await,
        "continue" => settle(&|| continue_with(next("second"))).await,
        "continue_after" => settle(&|| continue_with(after(scenery.id()))).await,
        "cancel" | "cancel_running" | "cancel_later" | "cancel_blocked" => {
            store.cancel(scenery.id()).await.map(std::mem::drop)
        }
        "complete" => {
            let change = scene.settlement(&scenery.claimed[0], done()).change;
            store.complete(CompleteParams { job: scenery.id(), change: &change }).await.map(std::mem::drop)
        }
        "delete" => store.delete(scenery.id()).await.map(std::mem::drop),
        "redrive" => redrive(store, queue, &DeadLetterFilter::default()).await.map(std::mem::drop),
        "drop" => drop_dead(store, queue, &DeadLetterFilter::default()).await.map(std::mem::drop),
        "promote" => store.promote(PromoteParams { queues: &queues, limit: 100 }).await.map(std::mem::drop),
        "rescue" => expired::rescue(store, &queues, SHORT).await.map(std::mem::drop),
        "pause" => store.pause(queue).await,
        "resume" => store.resume(queue).await,
        "purge" => store.purge(queue).await.map(std::mem::drop),
        "prune" => store.prune(&queues).await.map(std::mem::drop),
        "leave" => store.leave(worker, &queues).await,
        "queues" => store.list_queues().await.map(std::mem::drop),
        "list" => {
            let list = ListJobsParams { queue, state: JobState::Ready, cursor: None, limit: 10 };
            store.list_jobs(list).await.map(std::mem::drop)
        }
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn a_verb_about_jobs_that_fails_for_a_spoiled_key_names_it_and_has_changed_nothing() {
    let mut wrong = Vec::new();
    for delivery in [Guarantee::AtLeastOnce, Guarantee::AtMostOnce] {
        let target = if delivery == Guarantee::AtLeastOnce { "stream:q" } else { "queue:q" };
        let mut names = of_queue(target);
        names.extend(of_queue("stream:jobs"));
        names.extend(SHARD_KEYS.map(str::to_owned));
        names.extend(["key:k", "job:a"].map(str::to_owned));
        for verb in VERBS.iter().filter(|verb| is_for(verb, delivery)) {
            // A store of its own: it remembers what it has prepared.
            let stage = Stage::new().await;
            let scene = stage.scene(delivery);
            let said = stage
                .play_all(
                    verb,
                    &names,
                    async || prepare(&scene, verb).await,
                    async |scenery| act(&scene, verb, scenery).await,
                )
                .await;
            let is_of_steps = |what: &String| OF_STEPS.contains(verb) && what.contains(" changed ");
            wrong.extend(
                said.into_iter()
                    .filter(|what| !is_of_steps(what))
                    .map(|what| format!("{delivery:?}: {what}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
