//! Jobs that are ended from outside.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Completed, Due, Extended, Verdict};
use tidemill_core::wake::Wake;

use super::Subject;
use super::hygiene::assert_nothing_is_left;
use super::scene::{LONG, Traits, chain, chain_after, dead, done, go_on, next, output, retry, until};

pub async fn a_waiting_job_is_ended(subject: Subject) {
    let scene = subject.scene();
    let later = Traits { due: Due::In(LONG), keep: Some(LONG), ..Traits::default() };
    for job in [chain(), later.job()] {
        let id = scene.enqueue(job).await;
        let other = scene.through(subject.other().await);
        assert_eq!(other.complete(&id, output(r#""approved""#)).await, Completed::Yes);
        let record = scene.get(&id).await.unwrap().record.unwrap();
        assert_eq!((record.state, &record.output[..]), (JobState::Done, &br#""approved""#[..]));
        scene.claim_nothing().await;
        scene.assert_counts([0, 0, 0, 0]).await;
    }
}

pub async fn a_running_job_is_ended_and_its_worker_has_lost_the_lease(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    let claimed = scene.claim_one().await;
    assert_eq!(scene.complete(&id, output("1")).await, Completed::Yes);
    assert_eq!(scene.extend(std::slice::from_ref(&claimed.lease)).await, [Extended::Lost]);
    for outcome in [output("2"), go_on(next("b")), retry(Duration::ZERO), dead("late")] {
        assert_eq!(scene.try_settle(&claimed, outcome).await, Verdict::LeaseLost);
    }
    assert_eq!(&scene.get(&id).await.unwrap().record.unwrap().output[..], b"1");
    scene.assert_counts([0, 0, 0, 0]).await;
}

pub async fn whoever_runs_it_is_told(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    scene.claim_one().await;
    let mut wakes = scene.store.subscribe();
    let other = scene.through(subject.other().await);
    // A listener hears of everything from some moment on; asking for what is gone is announced to nobody.
    let listening = async {
        loop {
            match wakes.next().await {
                Some(Wake::LeaseLost(job)) if job == id => return,
                Some(Wake::Everything) if scene.state(&id).await == Some(JobState::Done) => return,
                _ => {}
            }
        }
    };
    let completing = async { assert_eq!(other.complete(&id, done()).await, Completed::Yes) };
    let both = futures_util::future::join(listening, completing);
    tokio::time::timeout(LONG, both).await.expect("the word that the lease is lost");
}

pub async fn a_job_that_is_ended_from_outside_may_continue(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    let claimed = scene.claim_one().await;
    assert_eq!(scene.complete(&id, go_on(next("b"))).await, Completed::Yes);
    assert_eq!(scene.try_settle(&claimed, done()).await, Verdict::LeaseLost);
    let second = scene.claim_one().await;
    assert_eq!(second.lease.job, id.at_step(1));
    scene.settle(&second, done()).await;
}

pub async fn a_step_that_was_left_behind_is_not_touched(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    assert_eq!(scene.complete(&id, output("late")).await, Completed::Ended(JobState::Done));
    assert_eq!(scene.claim_one().await.lease.job, id.at_step(1));
}

pub async fn a_blocked_job_is_ended_and_waits_for_nobody(subject: Subject) {
    let scene = subject.scene();
    let blocker = scene.enqueue(chain()).await;
    let id = scene.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    assert_eq!(scene.complete(&id, output("1")).await, Completed::Yes);
    scene.settle(&scene.claim_one().await, done()).await;
    scene.promote().await;
    scene.claim_nothing().await;
    assert_eq!(scene.state(&id).await, Some(JobState::Done));
    assert_eq!(scene.counts().await.blocked, 0);
}

pub async fn ending_a_chain_from_outside_releases_whoever_waits_for_it(subject: Subject) {
    let scene = subject.scene();
    let blocker = scene.enqueue(chain()).await;
    let id = scene.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    assert_eq!(scene.complete(&blocker, output("9")).await, Completed::Yes);
    let claimed = until("the job to start", || async {
        scene.promote().await;
        scene.try_claim(1).await.pop()
    })
    .await;
    assert_eq!(claimed.lease.job, id);
    assert_eq!(super::scene::envelope(&claimed).blockers().unwrap()[0].output.get(), "9");
}

pub async fn what_has_ended_or_never_was_cannot_be_ended(subject: Subject) {
    let scene = subject.scene();
    let id = scene.closed_chain("1").await;
    assert_eq!(scene.complete(&id, output("2")).await, Completed::Ended(JobState::Done));
    assert_eq!(scene.complete(&JobId::generate(), done()).await, Completed::NotFound);
    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, dead("bad")).await;
    assert_eq!(scene.complete(&id, output("2")).await, Completed::Ended(JobState::Dead));
}

pub async fn of_many_who_end_a_job_one_does(subject: Subject) {
    let scene = subject.scene();
    let other = scene.through(subject.other().await);
    for round in 0..10 {
        let id = scene.enqueue(chain()).await;
        let claimed = scene.claim_one().await;
        let outside = (0..4).map(|index| {
            let (scene, id) = ([&scene, &other][index % 2].clone(), id.clone());
            tokio::spawn(async move { scene.complete(&id, output("1")).await == Completed::Yes })
        });
        let inside = {
            let scene = scene.clone();
            tokio::spawn(async move { scene.try_settle(&claimed, output("0")).await == Verdict::Accepted })
        };
        let tasks: Vec<_> = outside.chain([inside]).collect();
        let accepted = join_all(tasks).await.into_iter().filter(|done| *done.as_ref().unwrap()).count();
        assert_eq!(accepted, 1, "round {round}");
    }
}

pub async fn ending_from_outside_leaves_nothing(subject: Subject) {
    let scene = subject.scene();
    let brief = Traits { keep: Some(Duration::from_millis(50)), ..Traits::default() };
    let id = scene.enqueue(brief.job()).await;
    assert_eq!(scene.complete(&id, done()).await, Completed::Yes);
    let id = scene.enqueue(brief.job()).await;
    scene.claim_one().await;
    assert_eq!(scene.complete(&id, go_on(next("b"))).await, Completed::Yes);
    assert_eq!(scene.complete(&id.at_step(1), done()).await, Completed::Yes);
    let plain = scene.enqueue(super::scene::job()).await;
    assert_eq!(scene.complete(&plain, done()).await, Completed::Yes);
    assert_nothing_is_left(&subject, &scene).await;
}
