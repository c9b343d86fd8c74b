//! Chains that are deleted.

use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, Deleted, Extended, Verdict};

use super::StoreUnderTest;
use super::cleanup::assert_nothing_is_left;
use super::harness::{chain, chain_after, chain_once, dead, done, continue_with, next, until};

pub async fn a_chain_is_deleted_in_every_state(subject: StoreUnderTest) {
    let harness = subject.harness();
    let ready = harness.enqueue(chain()).await;
    assert_eq!(harness.delete(&ready).await, Deleted::Yes);

    let id = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, continue_with(next("b"))).await;
    let running = harness.claim_one().await;
    assert_eq!(harness.delete(&id).await, Deleted::Yes);
    assert_eq!(harness.extend(std::slice::from_ref(&running.lease)).await, [Extended::Lost]);
    assert_eq!(harness.try_settle(&running, done()).await, Verdict::LeaseLost);

    let letter = harness.enqueue(chain()).await;
    harness.settle(&harness.claim_one().await, dead("bad")).await;
    assert_eq!(harness.delete(&letter).await, Deleted::Yes);

    let closed = harness.closed_chain("1").await;
    assert_eq!(harness.delete(&closed).await, Deleted::Yes);

    for id in [ready, id, letter, closed] {
        assert_eq!(harness.state(&id).await, None);
        assert_eq!(harness.delete(&id).await, Deleted::NotFound);
    }
    assert_nothing_is_left(&subject, &harness).await;
}

pub async fn a_chain_that_others_wait_for_is_not(subject: StoreUnderTest) {
    let harness = subject.harness();
    let blocker = harness.enqueue(chain()).await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    let Deleted::Awaited(waiter) = harness.delete(&blocker).await else { panic!("it was deleted") };
    assert_eq!(waiter.chain(), id);
    assert_eq!(harness.state(&blocker).await, Some(JobState::Ready));
    // A waiting chain may be deleted, and then nothing waits any more.
    assert_eq!(harness.delete(&id).await, Deleted::Yes);
    until("the blocker to be free", || async {
        harness.promote().await;
        (harness.delete(&blocker).await == Deleted::Yes).then_some(())
    })
    .await;
    assert_nothing_is_left(&subject, &harness).await;
}

pub async fn a_cancelled_waiter_holds_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let blocker = harness.enqueue(chain()).await;
    let id = harness.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Removed);
    until("the blocker to be free", || async {
        harness.promote().await;
        (harness.delete(&blocker).await == Deleted::Yes).then_some(())
    })
    .await;
    assert_nothing_is_left(&subject, &harness).await;
}

pub async fn an_id_and_a_key_are_free_again(subject: StoreUnderTest) {
    let harness = subject.harness();
    let job = chain_once(tidemill_core::chain::Dedup::any("k"));
    harness.enqueue(job.clone()).await;
    assert_eq!(harness.delete(&job.id).await, Deleted::Yes);
    harness.enqueue(job.clone()).await;
    assert_eq!(harness.claim_one().await.lease.job, job.id);
}

pub async fn a_chain_that_never_was_is_not_found(subject: StoreUnderTest) {
    let harness = subject.harness();
    assert_eq!(harness.delete(&JobId::generate()).await, Deleted::NotFound);
}
