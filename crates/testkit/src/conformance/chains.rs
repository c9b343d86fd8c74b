//! Jobs that continue one another.

use std::time::Duration;

use tidemill_core::chain::Continuation;
use tidemill_core::job::JobState;
use tidemill_core::name::{Guarantee, QueueName, Queue};
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, redrive};
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Cancelled, Enqueued, Verdict};
use tidemill_core::wake::Wake;
use futures_util::StreamExt;

use super::Subject;
use super::hygiene::assert_nothing_is_left;
use super::scene::{LONG, SHORT, Traits, chain, dead, done, envelope, go_on, job, next, output, retry, until};

pub async fn a_job_that_continues_is_followed_by_the_next(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    let first = scene.claim_one().await;
    scene.settle(&first, go_on(next("second"))).await;
    let second = scene.claim_one().await;
    assert_eq!((second.lease.job.chain(), second.lease.job.step()), (id.clone(), 1));
    assert_eq!(envelope(&second).id(), &second.lease.job);
    assert_eq!(envelope(&second).kind().as_str(), "second");
    assert_eq!(envelope(&second).payload(), br#"{"by":"second"}"#);
    assert_eq!((envelope(&second).attempts(), envelope(&second).keep_result()), (0, envelope(&first).keep_result()));
    scene.claim_nothing().await;
}

pub async fn the_output_of_the_last_job_is_the_chains(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    for step in ["b", "c"] {
        scene.settle(&scene.claim_one().await, go_on(next(step))).await;
        assert!(scene.get(&id).await.unwrap().record.is_none());
    }
    scene.settle(&scene.claim_one().await, output(r#"{"sum":3}"#)).await;
    let record = scene.get(&id).await.unwrap().record.unwrap();
    assert_eq!((record.job, record.state, &record.output[..]), (id, JobState::Done, &br#"{"sum":3}"#[..]));
}

pub async fn any_step_finds_what_its_chain_is_at(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    let second = scene.claim_one().await;
    scene.settle(&second, go_on(next("c"))).await;
    for asked in [id.clone(), id.at_step(1), id.at_step(2)] {
        let info = scene.get(&asked).await.unwrap();
        assert_eq!((info.job, info.state), (id.at_step(2), JobState::Ready), "{asked}");
    }
    let listed = scene.list(JobState::Ready, 10).await;
    assert_eq!(listed.into_iter().map(|info| info.job).collect::<Vec<_>>(), [id.at_step(2)]);
}

pub async fn a_chain_may_go_on_in_another_queue_and_later(subject: Subject) {
    let (scene, other) = (subject.scene(), subject.scene_on("other", Guarantee::AtLeastOnce));
    let id = scene.enqueue(chain()).await;
    let elsewhere = Continuation {
        queue: Queue::at_least_once(QueueName::new("other").unwrap()),
        due: tidemill_core::store::Due::In(Duration::from_millis(150)),
        ..next("b")
    };
    scene.settle(&scene.claim_one().await, go_on(elsewhere)).await;
    let info = scene.get(&id).await.unwrap();
    assert_eq!((info.state, info.queue), (JobState::Scheduled, Some(other.queue.clone())));
    scene.claim_nothing().await;
    scene.assert_counts([0, 0, 0, 0]).await;
    let claimed = until("the next step to be due", || async {
        other.promote().await;
        other.try_claim(1).await.pop()
    })
    .await;
    assert_eq!(claimed.lease.job, id.at_step(1));
    other.settle(&claimed, done()).await;
}

pub async fn a_chain_may_loop(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    for step in 0..25 {
        let claimed = scene.claim_one().await;
        assert_eq!(claimed.lease.job, id.at_step(step));
        scene.settle(&claimed, go_on(next("again"))).await;
    }
    scene.settle(&scene.claim_one().await, done()).await;
    assert_eq!(scene.state(&id).await, Some(JobState::Done));
}

pub async fn the_next_step_wakes_whoever_waits_for_its_queue(subject: Subject) {
    let scene = subject.scene();
    let other = subject.scene_on("other", Guarantee::AtLeastOnce).through(subject.other().await);
    let id = scene.enqueue(chain()).await;
    let claimed = scene.claim_one().await;
    let waiting = tokio::spawn(async move { other.claim_with(1, 1, LONG).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let elsewhere = Queue::at_least_once(QueueName::new("other").unwrap());
    scene.settle(&claimed, go_on(Continuation { queue: elsewhere, ..next("b") })).await;
    assert_eq!(waiting.await.unwrap()[0].lease.job, id.at_step(1));
}

pub async fn a_stale_lease_continues_nothing(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    let first = scene.claim_one().await;
    scene.settle(&first, go_on(next("b"))).await;
    for outcome in [go_on(next("c")), done(), retry(Duration::ZERO), dead("late")] {
        assert_eq!(scene.try_settle(&first, outcome).await, Verdict::LeaseLost);
    }
    assert_eq!(scene.claim_one().await.lease.job, id.at_step(1));
    scene.claim_nothing().await;
}

pub async fn the_same_id_is_one_chain_wherever_it_is(subject: Subject) {
    let scene = subject.scene();
    let first = chain();
    scene.enqueue(first.clone()).await;
    for step in ["b", "c"] {
        scene.settle(&scene.claim_one().await, go_on(next(step))).await;
        assert_eq!(scene.enqueue_again(first.clone()).await, Enqueued::Exists);
    }
    let claimed = scene.claim_one().await;
    assert_eq!(scene.enqueue_again(first.clone()).await, Enqueued::Exists);
    scene.settle(&claimed, done()).await;
    assert_eq!(scene.enqueue_again(first).await, Enqueued::Exists);
}

pub async fn a_step_is_retried_buried_and_brought_back_like_any_job(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    scene.settle(&scene.claim_one().await, retry(Duration::ZERO)).await;
    let again = scene.claim_one().await;
    assert_eq!((&again.lease.job, envelope(&again).attempts()), (&id.at_step(1), 1));
    scene.settle(&again, dead("bad")).await;
    let info = scene.get(&id).await.unwrap();
    assert_eq!((info.state, info.job), (JobState::Dead, id.at_step(1)));
    assert_eq!(redrive(&*scene.store, &scene.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
    let back = scene.claim_one().await;
    assert_eq!(back.lease.job, id.at_step(1));
    scene.settle(&back, output("1")).await;
    assert_eq!(scene.state(&id).await, Some(JobState::Done));
}

pub async fn a_step_whose_worker_died_is_rescued(subject: Subject) {
    let scene = subject.scene().leasing(SHORT);
    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    scene.claim_one().await;
    scene.expire_and_rescue(1).await;
    let back = scene.claim_one().await;
    assert_eq!((&back.lease.job, envelope(&back).crashes()), (&id.at_step(1), 1));
    scene.settle(&back, done()).await;
}

pub async fn a_chain_is_cancelled_wherever_it_is(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Removed);
    assert_eq!(scene.state(&id).await, None);

    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    let running = scene.claim_one().await;
    assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Requested);
    scene.settle(&running, go_on(next("c"))).await;
    scene.claim_nothing().await;
    assert_ne!(scene.state(&id).await, Some(JobState::Ready));
}

pub async fn the_close_of_a_chain_is_announced_by_its_id(subject: Subject) {
    let scene = subject.scene();
    let other = subject.other().await;
    let mut wakes = other.subscribe();
    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    let last = scene.claim_one().await;
    // Whoever begins to listen may be told to look at everything first, and then hears each end.
    scene.settle(&last, done()).await;
    let heard = async {
        loop {
            match wakes.next().await {
                Some(Wake::Finished(chain)) => return chain,
                Some(Wake::Everything) => return id.clone(),
                _ => {}
            }
        }
    };
    assert_eq!(tokio::time::timeout(LONG, heard).await.unwrap(), id);
}

pub async fn a_plain_job_may_become_a_chain(subject: Subject) {
    let scene = subject.scene();
    let id = scene.enqueue(job()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    let second = scene.claim_one().await;
    assert!(envelope(&second).keep_result().is_some());
    scene.settle(&second, output("7")).await;
    assert_eq!(&scene.get(&id).await.unwrap().record.unwrap().output[..], b"7");
}

pub async fn a_drained_chain_leaves_nothing(subject: Subject) {
    let scene = subject.scene();
    let brief = Traits { keep: Some(Duration::from_millis(50)), ..Traits::default() };
    scene.enqueue(brief.job()).await;
    scene.enqueue(brief.job()).await;
    for outcome in [done(), Outcome::Discard("not wanted".to_owned())] {
        let claimed = scene.claim_one().await;
        let id = claimed.lease.job.clone();
        scene.settle(&claimed, go_on(next("b"))).await;
        scene.settle(&scene.claim_chain(&id).await, outcome).await;
    }
    assert_nothing_is_left(&subject, &scene).await;
}
