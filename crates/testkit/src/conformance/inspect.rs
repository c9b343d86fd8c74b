//! Looking at jobs, queues and the store.

use tidemill_core::job::JobState;
use tidemill_core::name::Guarantee;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::{Due, JobInfo, ListJobsParams};

use super::Subject;
use super::scene::{LONG, Traits, dead, done, job};

pub async fn a_job_that_never_was_is_not_found(subject: Subject) {
    assert!(subject.store.get_job(&JobId::generate()).await.unwrap().is_none());
}

fn place(info: &JobInfo) -> (JobState, Option<&Queue>) {
    (info.state, info.queue.as_ref())
}

pub async fn a_job_is_found_in_every_state(subject: Subject) {
    for scene in subject.scenes() {
        let job = Traits { keep: Some(LONG), ..Traits::default() }.job();
        let id = scene.enqueue(job.clone()).await;
        let ready = scene.get(&id).await.unwrap();
        assert_eq!((place(&ready), &ready.data), ((JobState::Ready, Some(&scene.queue)), &job.envelope));
        assert!(ready.held_by.is_none() && ready.record.is_none() && !ready.cancelling);
        let claimed = scene.claim_one().await;
        let running = scene.get(&id).await.unwrap();
        assert_eq!((place(&running), &running.data), ((JobState::Running, Some(&scene.queue)), &job.envelope));
        assert_eq!(running.held_by.as_deref(), Some(scene.worker.as_str()));
        scene.settle(&claimed, done()).await;
        let ended = scene.get(&id).await.unwrap();
        assert_eq!((ended.job, ended.state), (id, JobState::Done));
        assert!(ended.record.is_some() && ended.held_by.is_none());
    }
}

pub async fn a_scheduled_and_a_dead_job_are_found(subject: Subject) {
    for scene in subject.scenes() {
        let job = Traits { due: Due::In(LONG), ..Traits::default() }.job();
        scene.enqueue(job.clone()).await;
        let scheduled = scene.get(&job.id).await.unwrap();
        assert_eq!((place(&scheduled), &scheduled.data), ((JobState::Scheduled, Some(&scene.queue)), &job.envelope));
        assert!(scheduled.due.is_some());
        let dead = scene.bury(&Traits::default(), "bad").await;
        let dead = scene.get(&dead).await.unwrap();
        assert_eq!(place(&dead), (JobState::Dead, Some(&scene.queue)));
    }
}

pub async fn lists_show_each_job_of_a_state_once_page_by_page(subject: Subject) {
    for scene in subject.scenes() {
        let ready = scene.enqueue_many(25).await;
        let later = Traits { due: Due::In(LONG), ..Traits::default() };
        let scheduled: Vec<_> = (0..25).map(|_| later.job()).collect();
        let ids: Vec<_> = scheduled.iter().map(|job| job.id.clone()).collect();
        scene.enqueue_batch(scheduled).await.unwrap();
        for (state, expected) in [(JobState::Ready, ready), (JobState::Scheduled, ids)] {
            let listed = scene.list(state, 10).await;
            assert!(listed.iter().all(|info| place(info) == (state, Some(&scene.queue)) && !info.data.is_empty()));
            assert_ids(&subject, listed, expected);
        }
    }
}

pub async fn lists_show_running_and_dead_jobs(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(50).await;
        let claimed = scene.claim(50).await;
        let (dying, living) = claimed.split_at(25);
        for claimed in dying {
            scene.settle(claimed, dead("bad")).await;
        }
        for (state, expected) in [(JobState::Dead, dying), (JobState::Running, living)] {
            let listed = scene.list(state, 10).await;
            assert!(listed.iter().all(|info| place(info) == (state, Some(&scene.queue))));
            let mut ids: Vec<_> = expected.iter().map(|claimed| claimed.lease.job.clone()).collect();
            let mut listed: Vec<_> = listed.into_iter().map(|info| info.job).collect();
            // Jobs that were taken from their queue have left its order.
            if subject.is_sharded() || (state, scene.queue.guarantee) == (JobState::Running, Guarantee::AtMostOnce) {
                listed.sort();
                ids.sort();
            }
            assert_eq!(listed, ids);
        }
    }
}

/// Oldest first, or, where shards have no order between them, all of them.
fn assert_ids(subject: &Subject, listed: Vec<JobInfo>, mut expected: Vec<JobId>) {
    let mut listed: Vec<_> = listed.into_iter().map(|info| info.job).collect();
    if subject.is_sharded() {
        listed.sort();
        expected.sort();
    }
    assert_eq!(listed, expected);
}

pub async fn a_page_is_bounded(subject: Subject) {
    for scene in subject.scenes() {
        scene.enqueue_many(25).await;
        let list = ListJobsParams { queue: &scene.queue, state: JobState::Ready, cursor: None, limit: 10 };
        let page = scene.store.list_jobs(list).await.unwrap();
        assert!(page.items.len() <= 10 && page.next.is_some(), "{} items", page.items.len());
    }
}

pub async fn the_list_of_an_unknown_queue_is_empty(subject: Subject) {
    for scene in subject.scenes() {
        for state in [JobState::Scheduled, JobState::Ready, JobState::Running, JobState::Dead] {
            assert!(scene.list(state, 10).await.is_empty());
        }
    }
}

pub async fn queues_are_counted(subject: Subject) {
    for scene in subject.scenes() {
        let later = Traits { due: Due::In(LONG), ..Traits::default() };
        scene.enqueue_many(6).await;
        scene.enqueue_batch(vec![later.job(), later.job()]).await.unwrap();
        scene.assert_counts([6, 2, 0, 0]).await;
        let claimed = scene.claim(3).await;
        scene.assert_counts([3, 2, 3, 0]).await;
        scene.settle(&claimed[0], dead("bad")).await;
        scene.settle(&claimed[1], done()).await;
        scene.assert_counts([3, 2, 1, 1]).await;
        scene.through(subject.other().await).assert_counts([3, 2, 1, 1]).await;
    }
}

pub async fn two_queues_of_one_name_are_counted_apart(subject: Subject) {
    let [scene, other] = subject.scenes();
    scene.enqueue_many(2).await;
    other.enqueue(job()).await;
    let queues = subject.store.list_queues().await.unwrap();
    let named: Vec<_> = queues.iter().filter(|info| info.queue.name == scene.queue.name).collect();
    assert_eq!(named.len(), 2);
    scene.assert_counts([2, 0, 0, 0]).await;
    other.assert_counts([1, 0, 0, 0]).await;
}

pub async fn a_checkup_names_the_server_and_how_safe_it_is(subject: Subject) {
    let checkup = subject.store.checkup().await.unwrap();
    assert!(!checkup.server.is_empty());
    assert_eq!(checkup.durability, subject.store.durability());
}

pub async fn commands_are_counted(subject: Subject) {
    let before = subject.store.commands();
    subject.scene().enqueue(job()).await;
    assert!(subject.store.commands() > before);
}

pub async fn the_clock_goes_on(subject: Subject) {
    let clock = subject.store.clock();
    let before = clock.now();
    clock.sleep(std::time::Duration::from_millis(20)).await;
    assert!(clock.now().0 >= before.0 + 15, "{before} then {}", clock.now());
}
