//! Chains that are deleted.

use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, Deleted, Extended, Verdict};

use super::Subject;
use super::hygiene::assert_nothing_is_left;
use super::scene::{chain, chain_after, chain_once, dead, done, go_on, next, until};

pub async fn a_chain_is_deleted_in_every_state(subject: Subject) {
    let scene = subject.scene();
    let ready = scene.enqueue(chain()).await;
    assert_eq!(scene.delete(&ready).await, Deleted::Yes);

    let id = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, go_on(next("b"))).await;
    let running = scene.claim_one().await;
    assert_eq!(scene.delete(&id).await, Deleted::Yes);
    assert_eq!(scene.extend(std::slice::from_ref(&running.lease)).await, [Extended::Lost]);
    assert_eq!(scene.try_settle(&running, done()).await, Verdict::LeaseLost);

    let letter = scene.enqueue(chain()).await;
    scene.settle(&scene.claim_one().await, dead("bad")).await;
    assert_eq!(scene.delete(&letter).await, Deleted::Yes);

    let closed = scene.closed_chain("1").await;
    assert_eq!(scene.delete(&closed).await, Deleted::Yes);

    for id in [ready, id, letter, closed] {
        assert_eq!(scene.state(&id).await, None);
        assert_eq!(scene.delete(&id).await, Deleted::NotFound);
    }
    assert_nothing_is_left(&subject, &scene).await;
}

pub async fn a_chain_that_others_wait_for_is_not(subject: Subject) {
    let scene = subject.scene();
    let blocker = scene.enqueue(chain()).await;
    let id = scene.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    let Deleted::Awaited(waiter) = scene.delete(&blocker).await else { panic!("it was deleted") };
    assert_eq!(waiter.chain(), id);
    assert_eq!(scene.state(&blocker).await, Some(JobState::Ready));
    // One that waits may be deleted, and then nobody waits any more.
    assert_eq!(scene.delete(&id).await, Deleted::Yes);
    until("the blocker to be free", || async {
        scene.promote().await;
        (scene.delete(&blocker).await == Deleted::Yes).then_some(())
    })
    .await;
    assert_nothing_is_left(&subject, &scene).await;
}

pub async fn a_cancelled_waiter_holds_nothing(subject: Subject) {
    let scene = subject.scene();
    let blocker = scene.enqueue(chain()).await;
    let id = scene.enqueue(chain_after(std::slice::from_ref(&blocker))).await;
    assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Removed);
    until("the blocker to be free", || async {
        scene.promote().await;
        (scene.delete(&blocker).await == Deleted::Yes).then_some(())
    })
    .await;
    assert_nothing_is_left(&subject, &scene).await;
}

pub async fn an_id_and_a_key_are_free_again(subject: Subject) {
    let scene = subject.scene();
    let job = chain_once(tidemill_core::chain::Dedup::any("k"));
    scene.enqueue(job.clone()).await;
    assert_eq!(scene.delete(&job.id).await, Deleted::Yes);
    scene.enqueue(job.clone()).await;
    assert_eq!(scene.claim_one().await.lease.job, job.id);
}

pub async fn a_chain_that_never_was_is_not_found(subject: Subject) {
    let scene = subject.scene();
    assert_eq!(scene.delete(&JobId::generate()).await, Deleted::NotFound);
}
