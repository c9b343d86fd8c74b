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

use super::StoreUnderTest;
use super::cleanup::assert_nothing_is_left;
use super::harness::{LONG, SHORT, JobSpec, chain, dead, done, envelope, continue_with, job, next, output, retry, until};

pub async fn a_job_that_continues_is_followed_by_the_next(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    let first = harness.claim_one().await;
    harness.settle(&first, continue_with(next("second"))).await;
    let second = harness.claim_one().await;
    assert_eq!((second.lease.job.chain(), second.lease.job.step()), (id.clone(), 1));
    assert_eq!(envelope(&second).id(), &second.lease.job);
    assert_eq!(envelope(&second).kind().as_str(), "second");
    assert_eq!(envelope(&second).payload(), br#"{"by":"second"}"#);
    assert_eq!((envelope(&second).attempts(), envelope(&second).keep_result()), (0, envelope(&first).keep_result()));
    harness.claim_nothing().await;
}

pub async fn the_output_of_the_last_job_is_the_chains(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    for step in ["b", "c"] {
        harness.settle(&harness.claim_one().await, continue_with(next(step))).await;
        assert!(harness.get(&id).await.unwrap().record.is_none());
    }
    harness.settle(&harness.claim_one().await, output(r#"{"sum":3}"#)).await;
    let record = harness.get(&id).await.unwrap().record.unwrap();
    assert_eq!((record.job, record.state, &record.output[..]), (id, JobState::Done, &br#"{"sum":3}"#[..]));
}

pub async fn any_step_finds_what_its_chain_is_at(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    let second = harness.claim_one().await;
    harness.settle(&second, continue_with(next("c"))).await;
    for asked in [id.clone(), id.at_step(1), id.at_step(2)] {
        let info = harness.get(&asked).await.unwrap();
        assert_eq!((info.job, info.state), (id.at_step(2), JobState::Ready), "{asked}");
    }
    let listed = harness.list(JobState::Ready, 10).await;
    assert_eq!(listed.into_iter().map(|info| info.job).collect::<Vec<_>>(), [id.at_step(2)]);
}

pub async fn a_chain_may_go_on_in_another_queue_and_later(subject: StoreUnderTest) {
    let (harness, other) = (subject.harness(), subject.harness_on("other", Guarantee::AtLeastOnce));
    let id = harness.enqueue(chain()).await;
    let elsewhere = Continuation {
        queue: Queue::at_least_once(QueueName::new("other").unwrap()),
        due: tidemill_core::store::Due::In(Duration::from_millis(150)),
        ..next("b")
    };
    harness.settle(&harness.claim_one().await, continue_with(elsewhere)).await;
    let info = harness.get(&id).await.unwrap();
    assert_eq!((info.state, info.queue), (JobState::Scheduled, Some(other.queue.clone())));
    harness.claim_nothing().await;
    harness.assert_counts([0, 0, 0, 0]).await;
    let claimed = until("the next step to be due", || async {
        other.promote().await;
        other.try_claim(1).await.pop()
    })
    .await;
    assert_eq!(claimed.lease.job, id.at_step(1));
    other.settle(&claimed, done()).await;
}

pub async fn a_chain_may_loop(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    for step in 0..25 {
        let claimed = harness.claim_one().await;
        assert_eq!(claimed.lease.job, id.at_step(step));
        harness.settle(&claimed, continue_with(next("again"))).await;
    }
    harness.settle(&harness.claim_one().await, done()).await;
    assert_eq!(harness.state(&id).await, Some(JobState::Done));
}

pub async fn the_next_step_wakes_whoever_waits_for_its_queue(subject: StoreUnderTest) {
    let harness = subject.harness();
    let other = subject.harness_on("other", Guarantee::AtLeastOnce).with_store(subject.other_connection().await);
    let id = harness.enqueue(chain()).await;
    let claimed = harness.claim_one().await;
    let waiting = tokio::spawn(async move { other.claim_with(1, 1, LONG).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let elsewhere = Queue::at_least_once(QueueName::new("other").unwrap());
    harness.settle(&claimed, continue_with(Continuation { queue: elsewhere, ..next("b") })).await;
    assert_eq!(waiting.await.unwrap()[0].lease.job, id.at_step(1));
}

pub async fn a_stale_lease_continues_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    let first = harness.claim_one().await;
    harness.settle(&first, continue_with(next("b"))).await;
    for outcome in [continue_with(next("c")), done(), retry(Duration::ZERO), dead("late")] {
        assert_eq!(harness.try_settle(&first, outcome).await, Verdict::LeaseLost);
    }
    assert_eq!(harness.claim_one().await.lease.job, id.at_step(1));
    harness.claim_nothing().await;
}

pub async fn the_same_id_is_one_chain_wherever_it_is(subject: StoreUnderTest) {
    let harness = subject.harness();
    let first = chain();
    harness.enqueue(first.clone()).await;
    for step in ["b", "c"] {
        harness.settle(&harness.claim_one().await, continue_with(next(step))).await;
        assert_eq!(harness.enqueue_again(first.clone()).await, Enqueued::Exists);
    }
    let claimed = harness.claim_one().await;
    assert_eq!(harness.enqueue_again(first.clone()).await, Enqueued::Exists);
    harness.settle(&claimed, done()).await;
    assert_eq!(harness.enqueue_again(first).await, Enqueued::Exists);
}

pub async fn a_step_is_retried_buried_and_brought_back_like_any_job(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    harness.settle(&harness.claim_one().await, retry(Duration::ZERO)).await;
    let again = harness.claim_one().await;
    assert_eq!((&again.lease.job, envelope(&again).attempts()), (&id.at_step(1), 1));
    harness.settle(&again, dead("bad")).await;
    let info = harness.get(&id).await.unwrap();
    assert_eq!((info.state, info.job), (JobState::Dead, id.at_step(1)));
    assert_eq!(redrive(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
    let back = harness.claim_one().await;
    assert_eq!(back.lease.job, id.at_step(1));
    harness.settle(&back, output("1")).await;
    assert_eq!(harness.state(&id).await, Some(JobState::Done));
}

pub async fn a_step_whose_worker_died_is_rescued(subject: StoreUnderTest) {
    let harness = subject.harness().with_lease(SHORT);
    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    harness.claim_one().await;
    harness.expire_and_rescue(1).await;
    let back = harness.claim_one().await;
    assert_eq!((&back.lease.job, envelope(&back).crashes()), (&id.at_step(1), 1));
    harness.settle(&back, done()).await;
}

pub async fn a_chain_is_cancelled_wherever_it_is(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Removed);
    assert_eq!(harness.state(&id).await, None);

    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    let running = harness.claim_one().await;
    assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Requested);
    harness.settle(&running, continue_with(next("c"))).await;
    harness.claim_nothing().await;
    assert_ne!(harness.state(&id).await, Some(JobState::Ready));
}

pub async fn the_close_of_a_chain_is_announced_by_its_id(subject: StoreUnderTest) {
    let harness = subject.harness();
    let other = subject.other_connection().await;
    let mut wakes = other.subscribe();
    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    let last = harness.claim_one().await;
    // A new subscription may receive `Everything` first, and then receives each end.
    harness.settle(&last, done()).await;
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

pub async fn a_plain_job_may_become_a_chain(subject: StoreUnderTest) {
    let harness = subject.harness();
    let id = harness.enqueue(job()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    let second = harness.claim_one().await;
    assert!(envelope(&second).keep_result().is_some());
    harness.settle(&second, output("7")).await;
    assert_eq!(&harness.get(&id).await.unwrap().record.unwrap().output[..], b"7");
}

pub async fn a_drained_chain_leaves_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let brief = JobSpec { keep: Some(Duration::from_millis(50)), ..JobSpec::default() };
    harness.enqueue(brief.job()).await;
    harness.enqueue(brief.job()).await;
    for outcome in [done(), Outcome::Discard("not wanted".to_owned())] {
        let claimed = harness.claim_one().await;
        let id = claimed.lease.job.clone();
        harness.settle(&claimed, continue_with(next("b"))).await;
        harness.settle(&harness.claim_chain(&id).await, outcome).await;
    }
    assert_nothing_is_left(&subject, &harness).await;
}
