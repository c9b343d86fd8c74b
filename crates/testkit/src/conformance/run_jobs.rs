//! The jobs of a run, and the effect of other clients' calls on them.

use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::dead_letter::redrive::{self, DeadLetterFilter};
use tidemill_core::settle::{Change, Outcome};
use tidemill_core::store::runs::{Effect, AfterCommit};
use tidemill_core::store::{Cancelled, CompleteParams, Due, Error, NewJob};
use tidemill_core::workflow::{RunId, RunStatus};

use super::StoreUnderTest;
use super::harness::{SHORT, QueueHarness, JobSpec, activity, completed, dead, done, job, order, order_of};

/// A remote command of a run, on the queue of its tasks.
fn errand(run: &RunId) -> Effect {
    let Effect::Job { job, .. } = activity(run, 9) else { panic!("an activity is a job") };
    let id = run.part("c9");
    let envelope = String::from_utf8(job.envelope.to_vec()).unwrap();
    let envelope = envelope.replace(job.id.as_str(), id.as_str()).into();
    Effect::Job { queue: order().queue, job: NewJob { id, envelope, ..job } }
}

/// Asserts that a run learns that these activities were cancelled, and lets it end.
async fn ends_without(harness: &QueueHarness, run: &RunId, seqs: &[u64]) {
    let task = harness.task_of(run).await;
    let mut told = Vec::new();
    for (_, entry) in &task.news {
        let event = &entry["event"]["activity_done"];
        assert_eq!(event["result"]["failed"]["kind"], "cancelled", "{entry}");
        told.push(event["seq"].as_u64().unwrap());
    }
    told.sort_unstable();
    assert_eq!(told, seqs);
    harness.commit(&task, Vec::new(), completed("1")).await;
}

fn is_refused<T>(result: Result<T, Error>, run: &RunId) -> bool {
    matches!(result, Err(Error::Invalid(why)) if why.contains(run.as_str()))
}

pub async fn a_run_and_a_job_with_its_id_live_side_by_side(subject: StoreUnderTest) {
    let harness = subject.harness();
    for job_comes_first in [true, false] {
        let run = RunId::generate();
        let id = JobId::new(run.as_str()).unwrap();
        let twin = JobSpec::default().job_with_id(id.clone());
        if job_comes_first {
            harness.enqueue(twin).await;
            harness.start_run(order_of(run.clone())).await;
        } else {
            harness.start_run(order_of(run.clone())).await;
            harness.enqueue(twin).await;
        }
        let task = harness.task_of(&run).await;
        let claimed = harness.claim_one().await;
        assert_eq!((&claimed.lease.job, task.claimed.lease.job.clone()), (&id, run.task()));
        harness.signal(&run, [1]).await;
        harness.commit(&task, Vec::new(), AfterCommit::Running).await;
        assert_eq!(harness.state(&id).await, Some(JobState::Running));
        harness.settle(&claimed, done()).await;
        let task = harness.task_of(&run).await;
        assert_eq!(task.signals(), [1]);
        harness.commit(&task, Vec::new(), completed("1")).await;
        assert_eq!(harness.run(&run).await.status, RunStatus::Completed);
    }
    harness.assert_counts([0, 0, 0, 0]).await;
    harness.on_tasks().assert_counts([0, 0, 0, 0]).await;
}

pub async fn an_id_that_belongs_to_a_run_is_no_jobs(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|_| Vec::new()).await;
    for id in [run.task(), run.part(1), RunId::generate().task()] {
        let batch = vec![job(), JobSpec::default().job_with_id(id.clone())];
        let refused = harness.enqueue_batch(batch).await;
        assert!(matches!(&refused, Err(Error::Invalid(why)) if why.contains(id.as_str())), "{refused:?}");
    }
    harness.assert_counts([0, 0, 0, 0]).await;
    harness.signal(&run, [1]).await;
    assert_eq!(harness.task_of(&run).await.signals(), [1]);
}

pub async fn what_a_run_goes_on_by_cannot_be_taken_away(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| vec![errand(run)]).await;
    harness.signal(&run, [1]).await;
    for own in [run.task(), run.part("c9")] {
        assert!(is_refused(harness.store.cancel(&own).await, &run));
        let complete = CompleteParams { job: &own, change: &Change::Finish(None) };
        assert!(is_refused(harness.store.complete(complete).await, &run));
        assert!(is_refused(harness.store.delete(&own).await, &run));
        assert_eq!(harness.state(&own).await, Some(JobState::Ready));
    }
}

pub async fn a_purge_leaves_what_runs_go_on_by(subject: StoreUnderTest) {
    let harness = subject.harness();
    let tasks = harness.on_tasks();
    let blocked = harness.start_run(order()).await;
    tasks.settle(&harness.task_of(&blocked).await.claimed, Outcome::Snooze(Duration::from_secs(3))).await;
    let run = harness.start_parked_run(|run| vec![errand(run)]).await;
    harness.signal(&run, [1]).await;
    tasks.enqueue_many(3).await;
    let later = NewJob { due: Due::In(Duration::from_secs(600)), ..job() };
    tasks.enqueue(later).await;
    assert_eq!(harness.store.purge(&tasks.queue).await.unwrap(), 4);
    assert_eq!(harness.store.purge(&tasks.queue).await.unwrap(), 0);
    assert_eq!(harness.state(&blocked.task()).await, Some(JobState::Scheduled));
    let mut left: Vec<_> = tasks.claim(2).await.into_iter().map(|claimed| claimed.lease.job).collect();
    left.sort();
    assert_eq!(left, [run.part("c9"), run.task()]);
    assert_eq!(tasks.claim_when_due(1).await[0].lease.job, blocked.task());
}

pub async fn a_letter_of_a_task_is_not_dropped(subject: StoreUnderTest) {
    let harness = subject.harness();
    let tasks = harness.on_tasks();
    let run = harness.start_run(order()).await;
    tasks.settle(&harness.task_of(&run).await.claimed, dead("poison")).await;
    let other = tasks.bury(&JobSpec::default(), "poison").await;
    let letters = [run.task(), other.clone()];
    assert_eq!(harness.store.drop_dead(&tasks.queue, &letters).await.unwrap(), 1);
    assert_eq!((harness.state(&run.task()).await, harness.state(&other).await), (Some(JobState::Dead), None));
    let named = DeadLetterFilter { jobs: vec![run.task()], ..DeadLetterFilter::default() };
    assert!(is_refused(redrive::drop_dead(&*harness.store, &tasks.queue, &named).await, &run));
    assert_eq!(redrive::drop_dead(&*harness.store, &tasks.queue, &DeadLetterFilter::default()).await.unwrap(), 0);
    assert_eq!(redrive::redrive(&*harness.store, &tasks.queue, &named).await.unwrap(), 1);
    harness.commit(&harness.task_of(&run).await, Vec::new(), completed("1")).await;
}

pub async fn a_run_hears_of_an_activity_that_was_cancelled(subject: StoreUnderTest) {
    let harness = subject.harness();
    let run = harness.start_parked_run(|run| vec![activity(run, 1)]).await;
    assert_eq!(harness.store.cancel(&run.part(1)).await.unwrap(), Cancelled::Removed);
    assert_eq!(harness.store.cancel(&run.part(1)).await.unwrap(), Cancelled::NotFound);
    ends_without(&harness, &run, &[1]).await;
    harness.on_activities().assert_counts([0, 0, 0, 0]).await;
}

pub async fn a_run_hears_of_a_cancelled_activity_however_its_attempt_ends(subject: StoreUnderTest) {
    let harness = subject.harness();
    let activities = harness.on_activities().with_lease(SHORT);
    // None: its worker is killed.
    for end in [Some(Outcome::Cancelled), Some(Outcome::HandedBack), None] {
        let run = harness.start_parked_run(|run| vec![activity(run, 1)]).await;
        let claimed = activities.claim_one().await;
        assert_eq!(harness.store.cancel(&run.part(1)).await.unwrap(), Cancelled::Requested);
        match end {
            Some(end) => activities.settle(&claimed, end).await,
            None => activities.expire_and_rescue(1).await,
        }
        activities.claim_nothing().await;
        ends_without(&harness, &run, &[1]).await;
        assert_eq!(harness.state(&run.part(1)).await, None);
    }
    activities.assert_counts([0, 0, 0, 0]).await;
}

pub async fn runs_hear_of_activities_that_were_purged(subject: StoreUnderTest) {
    let harness = subject.harness();
    let activities = harness.on_activities();
    let many = harness.start_parked_run(|run| (1..=5).map(|seq| activity(run, seq)).collect()).await;
    activities.enqueue_many(3).await;
    assert_eq!(harness.store.purge(&activities.queue).await.unwrap(), 8);
    ends_without(&harness, &many, &[1, 2, 3, 4, 5]).await;
    // The end of a run that has ended already is not announced.
    let ended = harness.start_parked_run(|run| vec![activity(run, 1)]).await;
    harness.terminate(&ended, &[]).await;
    assert_eq!(harness.store.purge(&activities.queue).await.unwrap(), 1);
    harness.no_task().await;
    activities.assert_counts([0, 0, 0, 0]).await;
}
