//! Reads of jobs, queues and the store.

use tidemill_core::job::JobState;
use tidemill_core::name::Guarantee;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::{Due, JobInfo, ListJobsParams};

use super::StoreUnderTest;
use super::harness::{LONG, JobSpec, dead, done, job};

pub async fn a_job_that_never_was_is_not_found(subject: StoreUnderTest) {
    assert!(subject.store.get_job(&JobId::generate()).await.unwrap().is_none());
}

fn place(info: &JobInfo) -> (JobState, Option<&Queue>) {
    (info.state, info.queue.as_ref())
}

pub async fn a_job_is_found_in_every_state(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = JobSpec { keep: Some(LONG), ..JobSpec::default() }.job();
        let id = harness.enqueue(job.clone()).await;
        let ready = harness.get(&id).await.unwrap();
        assert_eq!((place(&ready), &ready.data), ((JobState::Ready, Some(&harness.queue)), &job.envelope));
        assert!(ready.held_by.is_none() && ready.record.is_none() && !ready.cancelling);
        let claimed = harness.claim_one().await;
        let running = harness.get(&id).await.unwrap();
        assert_eq!((place(&running), &running.data), ((JobState::Running, Some(&harness.queue)), &job.envelope));
        assert_eq!(running.held_by.as_deref(), Some(harness.worker.as_str()));
        harness.settle(&claimed, done()).await;
        let ended = harness.get(&id).await.unwrap();
        assert_eq!((ended.job, ended.state), (id, JobState::Done));
        assert!(ended.record.is_some() && ended.held_by.is_none());
    }
}

pub async fn a_scheduled_and_a_dead_job_are_found(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let job = JobSpec { due: Due::In(LONG), ..JobSpec::default() }.job();
        harness.enqueue(job.clone()).await;
        let scheduled = harness.get(&job.id).await.unwrap();
        assert_eq!((place(&scheduled), &scheduled.data), ((JobState::Scheduled, Some(&harness.queue)), &job.envelope));
        assert!(scheduled.due.is_some());
        let dead = harness.bury(&JobSpec::default(), "bad").await;
        let dead = harness.get(&dead).await.unwrap();
        assert_eq!(place(&dead), (JobState::Dead, Some(&harness.queue)));
    }
}

pub async fn lists_show_each_job_of_a_state_once_page_by_page(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let ready = harness.enqueue_many(25).await;
        let later = JobSpec { due: Due::In(LONG), ..JobSpec::default() };
        let scheduled: Vec<_> = (0..25).map(|_| later.job()).collect();
        let ids: Vec<_> = scheduled.iter().map(|job| job.id.clone()).collect();
        harness.enqueue_batch(scheduled).await.unwrap();
        for (state, expected) in [(JobState::Ready, ready), (JobState::Scheduled, ids)] {
            let listed = harness.list(state, 10).await;
            assert!(listed.iter().all(|info| place(info) == (state, Some(&harness.queue)) && !info.data.is_empty()));
            assert_ids(&subject, listed, expected);
        }
    }
}

pub async fn lists_show_running_and_dead_jobs(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(50).await;
        let claimed = harness.claim(50).await;
        let (dying, living) = claimed.split_at(25);
        for claimed in dying {
            harness.settle(claimed, dead("bad")).await;
        }
        for (state, expected) in [(JobState::Dead, dying), (JobState::Running, living)] {
            let listed = harness.list(state, 10).await;
            assert!(listed.iter().all(|info| place(info) == (state, Some(&harness.queue))));
            let mut ids: Vec<_> = expected.iter().map(|claimed| claimed.lease.job.clone()).collect();
            let mut listed: Vec<_> = listed.into_iter().map(|info| info.job).collect();
            // Claimed jobs have left the order of their queue.
            if subject.is_sharded() || (state, harness.queue.guarantee) == (JobState::Running, Guarantee::AtMostOnce) {
                listed.sort();
                ids.sort();
            }
            assert_eq!(listed, ids);
        }
    }
}

/// Oldest first, or in any order on a sharded store.
fn assert_ids(subject: &StoreUnderTest, listed: Vec<JobInfo>, mut expected: Vec<JobId>) {
    let mut listed: Vec<_> = listed.into_iter().map(|info| info.job).collect();
    if subject.is_sharded() {
        listed.sort();
        expected.sort();
    }
    assert_eq!(listed, expected);
}

pub async fn a_page_is_bounded(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        harness.enqueue_many(25).await;
        let list = ListJobsParams { queue: &harness.queue, state: JobState::Ready, cursor: None, limit: 10 };
        let page = harness.store.list_jobs(list).await.unwrap();
        assert!(page.items.len() <= 10 && page.next.is_some(), "{} items", page.items.len());
    }
}

pub async fn the_list_of_an_unknown_queue_is_empty(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for state in [JobState::Scheduled, JobState::Ready, JobState::Running, JobState::Dead] {
            assert!(harness.list(state, 10).await.is_empty());
        }
    }
}

pub async fn queues_are_counted(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let later = JobSpec { due: Due::In(LONG), ..JobSpec::default() };
        harness.enqueue_many(6).await;
        harness.enqueue_batch(vec![later.job(), later.job()]).await.unwrap();
        harness.assert_counts([6, 2, 0, 0]).await;
        let claimed = harness.claim(3).await;
        harness.assert_counts([3, 2, 3, 0]).await;
        harness.settle(&claimed[0], dead("bad")).await;
        harness.settle(&claimed[1], done()).await;
        harness.assert_counts([3, 2, 1, 1]).await;
        harness.with_store(subject.other_connection().await).assert_counts([3, 2, 1, 1]).await;
    }
}

pub async fn two_queues_of_one_name_are_counted_apart(subject: StoreUnderTest) {
    let [harness, other] = subject.harnesses();
    harness.enqueue_many(2).await;
    other.enqueue(job()).await;
    let queues = subject.store.list_queues().await.unwrap();
    let named: Vec<_> = queues.iter().filter(|info| info.queue.name == harness.queue.name).collect();
    assert_eq!(named.len(), 2);
    harness.assert_counts([2, 0, 0, 0]).await;
    other.assert_counts([1, 0, 0, 0]).await;
}

pub async fn a_checkup_names_the_server_and_how_safe_it_is(subject: StoreUnderTest) {
    let checkup = subject.store.checkup().await.unwrap();
    assert!(!checkup.server.is_empty());
    assert_eq!(checkup.durability, subject.store.durability());
}

pub async fn commands_are_counted(subject: StoreUnderTest) {
    let before = subject.store.commands();
    subject.harness().enqueue(job()).await;
    assert!(subject.store.commands() > before);
}

pub async fn the_clock_goes_on(subject: StoreUnderTest) {
    let clock = subject.store.clock();
    let before = clock.now();
    clock.sleep(std::time::Duration::from_millis(20)).await;
    assert!(clock.now().0 >= before.0 + 15, "{before} then {}", clock.now());
}
