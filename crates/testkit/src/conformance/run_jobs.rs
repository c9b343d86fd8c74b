//! What belongs to a run, and what becomes of it when others lay hands on it.

use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::dead_letter::redrive::{self, DeadLetterFilter};
use tidemill_core::settle::{Change, Outcome};
use tidemill_core::store::runs::{Effect, AfterCommit};
use tidemill_core::store::{Cancelled, CompleteParams, Due, Error, NewJob};
use tidemill_core::workflow::{RunId, RunStatus};

use super::Subject;
use super::scene::{SHORT, Scene, Traits, activity, completed, dead, done, job, order, order_of};

/// An errand of a run, on the queue of its tasks.
fn errand(run: &RunId) -> Effect {
    let Effect::Job { job, .. } = activity(run, 9) else { panic!("an activity is a job") };
    let id = run.part("c9");
    let envelope = String::from_utf8(job.envelope.to_vec()).unwrap();
    let envelope = envelope.replace(job.id.as_str(), id.as_str()).into();
    Effect::Job { queue: order().queue, job: NewJob { id, envelope, ..job } }
}

/// Asserts that a run is told that these activities will not be done, and lets it end.
async fn ends_without(scene: &Scene, run: &RunId, seqs: &[u64]) {
    let task = scene.task_of(run).await;
    let mut told = Vec::new();
    for (_, entry) in &task.news {
        let event = &entry["event"]["activity_done"];
        assert_eq!(event["result"]["failed"]["kind"], "cancelled", "{entry}");
        told.push(event["seq"].as_u64().unwrap());
    }
    told.sort_unstable();
    assert_eq!(told, seqs);
    scene.commit(&task, Vec::new(), completed("1")).await;
}

fn is_refused<T>(result: Result<T, Error>, run: &RunId) -> bool {
    matches!(result, Err(Error::Invalid(why)) if why.contains(run.as_str()))
}

pub async fn a_run_and_a_job_with_its_id_live_side_by_side(subject: Subject) {
    let scene = subject.scene();
    for job_comes_first in [true, false] {
        let run = RunId::generate();
        let id = JobId::new(run.as_str()).unwrap();
        let twin = Traits::default().job_of(id.clone());
        if job_comes_first {
            scene.enqueue(twin).await;
            scene.start_run(order_of(run.clone())).await;
        } else {
            scene.start_run(order_of(run.clone())).await;
            scene.enqueue(twin).await;
        }
        let task = scene.task_of(&run).await;
        let claimed = scene.claim_one().await;
        assert_eq!((&claimed.lease.job, task.claimed.lease.job.clone()), (&id, run.task()));
        scene.signal(&run, [1]).await;
        scene.commit(&task, Vec::new(), AfterCommit::Running).await;
        assert_eq!(scene.state(&id).await, Some(JobState::Running));
        scene.settle(&claimed, done()).await;
        let task = scene.task_of(&run).await;
        assert_eq!(task.signals(), [1]);
        scene.commit(&task, Vec::new(), completed("1")).await;
        assert_eq!(scene.run(&run).await.status, RunStatus::Completed);
    }
    scene.assert_counts([0, 0, 0, 0]).await;
    scene.on_tasks().assert_counts([0, 0, 0, 0]).await;
}

pub async fn an_id_that_belongs_to_a_run_is_no_jobs(subject: Subject) {
    let scene = subject.scene();
    let run = scene.parked(|_| Vec::new()).await;
    for id in [run.task(), run.part(1), RunId::generate().task()] {
        let batch = vec![job(), Traits::default().job_of(id.clone())];
        let refused = scene.enqueue_batch(batch).await;
        assert!(matches!(&refused, Err(Error::Invalid(why)) if why.contains(id.as_str())), "{refused:?}");
    }
    scene.assert_counts([0, 0, 0, 0]).await;
    scene.signal(&run, [1]).await;
    assert_eq!(scene.task_of(&run).await.signals(), [1]);
}

pub async fn what_a_run_goes_on_by_cannot_be_taken_away(subject: Subject) {
    let scene = subject.scene();
    let run = scene.parked(|run| vec![errand(run)]).await;
    scene.signal(&run, [1]).await;
    for own in [run.task(), run.part("c9")] {
        assert!(is_refused(scene.store.cancel(&own).await, &run));
        let complete = CompleteParams { job: &own, change: &Change::Finish(None) };
        assert!(is_refused(scene.store.complete(complete).await, &run));
        assert!(is_refused(scene.store.delete(&own).await, &run));
        assert_eq!(scene.state(&own).await, Some(JobState::Ready));
    }
}

pub async fn a_purge_leaves_what_runs_go_on_by(subject: Subject) {
    let scene = subject.scene();
    let tasks = scene.on_tasks();
    let blocked = scene.start_run(order()).await;
    tasks.settle(&scene.task_of(&blocked).await.claimed, Outcome::Snooze(Duration::from_millis(300))).await;
    let run = scene.parked(|run| vec![errand(run)]).await;
    scene.signal(&run, [1]).await;
    tasks.enqueue_many(3).await;
    let later = NewJob { due: Due::In(Duration::from_secs(600)), ..job() };
    tasks.enqueue(later).await;
    assert_eq!(scene.store.purge(&tasks.queue).await.unwrap(), 4);
    assert_eq!(scene.store.purge(&tasks.queue).await.unwrap(), 0);
    assert_eq!(scene.state(&blocked.task()).await, Some(JobState::Scheduled));
    let mut left: Vec<_> = tasks.claim(2).await.into_iter().map(|claimed| claimed.lease.job).collect();
    left.sort();
    assert_eq!(left, [run.part("c9"), run.task()]);
    assert_eq!(tasks.claim_when_due(1).await[0].lease.job, blocked.task());
}

pub async fn a_letter_of_a_task_is_not_dropped(subject: Subject) {
    let scene = subject.scene();
    let tasks = scene.on_tasks();
    let run = scene.start_run(order()).await;
    tasks.settle(&scene.task_of(&run).await.claimed, dead("poison")).await;
    let other = tasks.bury(&Traits::default(), "poison").await;
    let letters = [run.task(), other.clone()];
    assert_eq!(scene.store.drop_dead(&tasks.queue, &letters).await.unwrap(), 1);
    assert_eq!((scene.state(&run.task()).await, scene.state(&other).await), (Some(JobState::Dead), None));
    let named = DeadLetterFilter { jobs: vec![run.task()], ..DeadLetterFilter::default() };
    assert!(is_refused(redrive::drop_dead(&*scene.store, &tasks.queue, &named).await, &run));
    assert_eq!(redrive::drop_dead(&*scene.store, &tasks.queue, &DeadLetterFilter::default()).await.unwrap(), 0);
    assert_eq!(redrive::redrive(&*scene.store, &tasks.queue, &named).await.unwrap(), 1);
    scene.commit(&scene.task_of(&run).await, Vec::new(), completed("1")).await;
}

pub async fn a_run_hears_of_an_activity_that_was_cancelled(subject: Subject) {
    let scene = subject.scene();
    let run = scene.parked(|run| vec![activity(run, 1)]).await;
    assert_eq!(scene.store.cancel(&run.part(1)).await.unwrap(), Cancelled::Removed);
    assert_eq!(scene.store.cancel(&run.part(1)).await.unwrap(), Cancelled::NotFound);
    ends_without(&scene, &run, &[1]).await;
    scene.on_activities().assert_counts([0, 0, 0, 0]).await;
}

pub async fn a_run_hears_of_a_cancelled_activity_however_its_attempt_ends(subject: Subject) {
    let scene = subject.scene();
    let activities = scene.on_activities().leasing(SHORT);
    // None: its worker dies without a word.
    for end in [Some(Outcome::Cancelled), Some(Outcome::HandedBack), None] {
        let run = scene.parked(|run| vec![activity(run, 1)]).await;
        let claimed = activities.claim_one().await;
        assert_eq!(scene.store.cancel(&run.part(1)).await.unwrap(), Cancelled::Requested);
        match end {
            Some(end) => activities.settle(&claimed, end).await,
            None => activities.expire_and_rescue(1).await,
        }
        activities.claim_nothing().await;
        ends_without(&scene, &run, &[1]).await;
        assert_eq!(scene.state(&run.part(1)).await, None);
    }
    activities.assert_counts([0, 0, 0, 0]).await;
}

pub async fn runs_hear_of_activities_that_were_purged(subject: Subject) {
    let scene = subject.scene();
    let activities = scene.on_activities();
    let many = scene.parked(|run| (1..=5).map(|seq| activity(run, seq)).collect()).await;
    activities.enqueue_many(3).await;
    assert_eq!(scene.store.purge(&activities.queue).await.unwrap(), 8);
    ends_without(&scene, &many, &[1, 2, 3, 4, 5]).await;
    // Of one that has ended nobody is told.
    let ended = scene.parked(|run| vec![activity(run, 1)]).await;
    scene.terminate(&ended, &[]).await;
    assert_eq!(scene.store.purge(&activities.queue).await.unwrap(), 1);
    scene.no_task().await;
    activities.assert_counts([0, 0, 0, 0]).await;
}
