//! Leases are extended while the worker holds the job, and a lost lease stops the handler.

use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::settle::expired::rescue;
use tidemill_core::store::{ClaimParams, Jobs};
use tidemill_core::wake::Wake;
use tidemill_core::{Clock, HolderId, Store as _};
use tidemill_worker::{Fail, JobContext};
use tokio::sync::mpsc;

use crate::fault_plan::{Fault, Verb};
use crate::world::{Background, Ping, World, queue, with_timeout};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_running_job_keeps_its_lease_for_as_long_as_it_takes() {
    let world = World::new().await;
    let job = world.ping().await;
    let (finish, finished) = tokio::sync::watch::channel(false);
    let handler = move |_: Ping| {
        let mut finished = finished.clone();
        async move {
            finished.wait_for(|finished| *finished).await.unwrap();
            Ok::<_, Fail>(1)
        }
    };
    let running = Background::run(world.worker().handle(handler).queue("default", 1));
    // Without a rescuer: the test does not control how much time passes between two heartbeats.
    world.plan().always(Verb::Expired, Fault::Away);
    let begun = world.clock.now();
    for beats in 1.. {
        world.as_time_passes(world.plan().called(Verb::Extend, beats)).await;
        if begun.until(world.clock.now()) > LEASE * 3 {
            break;
        }
    }
    world.plan().heal();
    assert_eq!(rescue(&*world.store, &[queue()], LEASE).await.unwrap(), 0);
    finish.send(true).unwrap();
    assert_eq!(running.stop().await.total.done, 1);
    assert_eq!(world.state(&job).await, Some(JobState::Done));
}

#[tokio::test]
async fn a_batch_of_leases_that_fails_does_not_keep_the_next_from_being_extended() {
    let world = World::new().await;
    world.pings(600).await;
    let handler = |_: Ping| async {
        std::future::pending::<()>().await;
        Ok::<_, Fail>(1)
    };
    world.plan().always(Verb::Extend, Fault::Away);
    world.plan().always(Verb::Expired, Fault::Away);
    let running = Background::run(world.worker().handle(handler).queue("default", 1).prefetch(1_500));
    world.as_time_passes(world.plan().called_about(Verb::Extend, 600 - 512)).await;
    running.kill().await;
}

#[tokio::test]
async fn leases_of_which_nothing_is_known_end_no_job_and_are_asked_for_again() {
    let world = World::new().await;
    let jobs = world.pings(2).await;
    let (finish, finished) = tokio::sync::watch::channel(false);
    let (told, mut was_told) = mpsc::channel(4);
    let handler = move |_: Ping, cx: JobContext| {
        let (mut finished, told) = (finished.clone(), told.clone());
        async move {
            told.send("begun").await.unwrap();
            let finished = async { finished.wait_for(|finished| *finished).await.map(drop).unwrap() };
            tokio::select! {
                () = finished => Ok::<_, Fail>(1),
                () = cx.cancelled() => {
                    told.send("stopped").await.unwrap();
                    Ok(2)
                }
            }
        }
    };
    // The shard of the first job does not answer for longer than a lease, and there is no rescuer.
    world.plan().silence_shard_of(Some(&jobs[0]));
    world.plan().always(Verb::Expired, Fault::Away);
    let running = Background::run(world.worker().handle(handler).queue("default", 2));
    assert_eq!((was_told.recv().await, was_told.recv().await), (Some("begun"), Some("begun")));
    let begun = world.clock.now();
    for beats in 1.. {
        world.as_time_passes(world.plan().called(Verb::Extend, beats)).await;
        if begun.until(world.clock.now()) > LEASE * 2 {
            break;
        }
    }
    assert!(was_told.try_recv().is_err(), "a handler was stopped");
    finish.send(true).unwrap();
    // A settled job does not wait for the other settlement.
    world.becomes(&jobs[1], JobState::Done).await;
    assert_eq!(world.state(&jobs[0]).await, Some(JobState::Running));
    world.plan().silence_shard_of(None);
    world.as_time_passes(world.becomes(&jobs[0], JobState::Done)).await;
    let report = running.stop().await;
    assert_eq!((report.total.lost, report.total.done), (0, 2));
}

#[tokio::test]
async fn leases_that_were_extended_are_extended_again_while_a_shard_is_silent() {
    let world = World::new().await;
    let jobs = world.pings(2).await;
    let (begun, mut began) = mpsc::channel(2);
    let handler = move |_: Ping| {
        let begun = begun.clone();
        async move {
            begun.send(()).await.unwrap();
            std::future::pending::<Result<u32, Fail>>().await
        }
    };
    world.plan().silence_shard_of(Some(&jobs[0]));
    world.plan().always(Verb::Expired, Fault::Away);
    let worker = world.worker().lease(Duration::from_secs(1)).handle(handler).queue("default", 2);
    let running = Background::run(worker);
    assert_eq!((began.recv().await, began.recv().await), (Some(()), Some(())));
    // The first call is about both jobs. Calls about the silent one alone follow, and after one
    // interval a call about both.
    let about_both =
        |calls: &[(Verb, usize)]| calls.iter().filter(|call| **call == (Verb::Extend, 2)).count();
    world.as_time_passes(world.plan().called_such_that(|calls| about_both(calls) == 3)).await;
    assert!(world.plan().calls().contains(&(Verb::Extend, 1)), "the silent shard was not asked again");
    running.kill().await;
}

#[tokio::test]
async fn a_lost_lease_stops_the_handler_and_its_settlement_has_no_effect() {
    let world = World::new().await;
    let job = world.ping().await;
    let (told, mut was_told) = mpsc::channel(4);
    let handler = move |_: Ping, cx: JobContext| {
        let told = told.clone();
        async move {
            told.send("begun").await.unwrap();
            if cx.envelope().crashes() > 0 {
                return Ok::<_, Fail>(2);
            }
            cx.cancelled().await;
            told.send("stopped").await.unwrap();
            Ok(1)
        }
    };
    world.plan().always(Verb::Extend, Fault::Away);
    let running = Background::run(world.worker().handle(handler).queue("default", 1));
    assert_eq!(was_told.recv().await, Some("begun"));
    // The worker's own rescuer takes the job, as that of any other worker would.
    world.as_time_passes(world.becomes(&job, JobState::Ready)).await;
    world.plan().heal();
    assert_eq!(was_told.recv().await, Some("stopped"));
    assert_eq!(was_told.recv().await, Some("begun"));
    let report = running.stop().await;
    assert_eq!((report.total.lost, report.total.done), (1, 1));
    assert_eq!(world.info(&job).await.record.unwrap().output, b"2".as_slice());
}

#[tokio::test]
async fn a_wake_up_that_names_a_running_job_makes_the_worker_ask_and_ends_nothing_by_itself() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begin, mut begun) = mpsc::channel(4);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let handler = move |_: Ping, cx: JobContext| {
        let (begin, mut finished) = (begin.clone(), finished.clone());
        async move {
            begin.send(cx.attempt()).await.unwrap();
            finished.wait_for(|finished| *finished).await.unwrap();
            Ok::<_, Fail>(1)
        }
    };
    let running = Background::run(world.worker().handle(handler).queue("default", 1));
    assert_eq!(begun.recv().await, Some(1));
    // The clock is paused, so there is no heartbeat.
    for (asked, wake) in [Wake::Cancel(job.clone()), Wake::LeaseLost(job.clone())].into_iter().enumerate() {
        world.store.bus().dispatch(wake);
        with_timeout(world.plan().called(Verb::Extend, asked + 1)).await;
    }
    finish.send(true).unwrap();
    let report = running.stop().await;
    assert_eq!((report.total.done, report.total.cancelled, report.total.lost), (1, 0, 0));
    assert_eq!(world.state(&job).await, Some(JobState::Done));
}

#[tokio::test]
async fn a_cancelled_job_is_stopped_although_the_store_fails_when_it_is_first_asked() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begin, mut begun) = mpsc::channel(4);
    let handler = move |_: Ping| {
        let begin = begin.clone();
        async move {
            begin.send(()).await.unwrap();
            std::future::pending::<Result<u32, Fail>>().await
        }
    };
    let mut running = Background::run(world.worker().handle(handler).queue("default", 1));
    begun.recv().await.unwrap();
    world.plan().always(Verb::Extend, Fault::Away);
    // The clock is paused, so only the wake-up triggers it.
    world.store.cancel(&job).await.unwrap();
    world.plan().called(Verb::Extend, 2).await;
    world.plan().heal();
    assert_eq!(running.next().await.outcome, tidemill_worker::EventKind::Cancelled);
    running.stop().await;
}

#[tokio::test]
async fn the_jobs_of_a_dead_worker_are_rescued_and_the_crash_is_counted() {
    let world = World::new().await;
    let job = world.ping().await;
    let dead = HolderId::from_process("gone", 1, 0);
    let claimed = world.store.inner.claim(ClaimParams::now(&queue(), &dead, LEASE, 1)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let attempt = |_: Ping, cx: JobContext| async move { Ok::<_, Fail>(cx.attempt()) };
    let mut running = Background::run(world.worker().handle(attempt).queue("default", 1));
    world.as_time_passes(running.next()).await;
    assert_eq!(world.info(&job).await.record.unwrap().output, b"2".as_slice());
    running.stop().await;
}

#[tokio::test]
async fn an_end_that_is_being_committed_is_not_taken_for_a_lost_lease() {
    let world = World::new().await;
    let job = world.ping().await;
    let (begun, mut began) = mpsc::unbounded_channel();
    let (go_on, gate) = std::sync::mpsc::channel();
    let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
    let handler = move |job: Ping, cx: JobContext| {
        let (begun, gate) = (begun.clone(), gate.clone());
        async move {
            let store = cx.client().store().as_any().downcast_ref::<tidemill_sqlite::SqliteStore>().unwrap();
            Ok::<_, Fail>(store.done(move |_| {
                begun.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
                Ok(job.n)
            }))
        }
    };
    let mut running = Background::run(world.worker().handle(handler).queue("default", 1));
    began.recv().await.unwrap();
    world.store.bus().dispatch(Wake::LeaseLost(job.clone()));
    // Processed before the next one, which has been processed when this returns.
    tokio::time::sleep(Duration::from_millis(50)).await;
    go_on.send(()).unwrap();
    assert_eq!(running.next().await.outcome, tidemill_worker::EventKind::Done);
    let report = running.stop().await;
    assert_eq!((report.total.done, report.total.lost), (1, 0));
}
