//! A foreign program that speaks the protocol wakes our workers, receives our wake-ups, and shares
//! hints with us.

use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tidemill::JobId;
use tidemill::store::HolderId;
use tidemill::store::{ClaimParams, Wake};

use crate::process::{Listener, run};
use crate::world::{Background, Ping, World, is_ready, queue, unheard, until};

#[tokio::test(flavor = "multi_thread")]
async fn its_notification_starts_our_job() {
    let world = World::new();
    let (client, silent) = (world.woken().await, world.silent().await);
    let mut worker = Background::start(&client);
    until("the subscription", || world.subscribers("queuert:sched") == 1).await;
    let job = unheard(&silent, &mut worker, 1).await;
    assert!(is_ready(silent.store(), &job).await);
    let hint = run(&world.redis, &["notify", "mail", "1"]);
    assert_eq!(worker.next().await, 1);
    let left = world.redis.command(&["GET", &format!("queuert:hint:{hint}")]).unwrap();
    assert_eq!(left, "0", "our worker has taken its share");

    // A type that is not one of our queues may concern any of them.
    unheard(&silent, &mut worker, 2).await;
    run(&world.redis, &["notify", "process-order", "1"]);
    assert_eq!(worker.next().await, 2);

    // The message of version 0.12.
    unheard(&silent, &mut worker, 3).await;
    run(&world.redis, &["notify-plain", "mail"]);
    assert_eq!(worker.next().await, 3);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_notification_wakes_its_listener_once_per_job() {
    let world = World::new();
    let client = world.woken().await;
    let mut listener = Listener::start(&world.redis, "mail", 5);
    client.jobs((0..3).map(Ping)).enqueue().await.unwrap();
    let words = listener.workers(5);
    assert_eq!(words.iter().filter(|word| *word == "query").count(), 3, "{words:?}");
    assert_eq!(words.iter().filter(|word| *word == "skip").count(), 2, "{words:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn our_notification_wakes_listeners_of_both_versions_once_per_job() {
    let world = World::new();
    let client = world.woken().await;
    let mut old = Listener::start(&world.redis, "mail", 5);
    let mut new = Listener::start_new(&world.redis, "mail", 5);
    client.jobs((0..3).map(Ping)).enqueue().await.unwrap();
    for listener in [&mut old, &mut new] {
        let words = listener.workers(5);
        assert_eq!(words.iter().filter(|word| *word == "query").count(), 3, "{words:?}");
        assert_eq!(words.iter().filter(|word| *word == "skip").count(), 2, "{words:?}");
    }
    let ttl = world.redis.command(&["TTL", "queuert:hint:mail"]).unwrap();
    assert!((1..=60).contains(&ttl.parse::<i64>().unwrap()), "{ttl}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_hears_that_a_lease_was_reaped() {
    let world = World::new();
    let client = world.woken().await;
    let mut listener = Listener::start(&world.redis, "other", 0);
    let handle = client.job(Ping(1)).enqueue().await.unwrap();
    let (queue, dead, lease) = (queue(), HolderId::from_process("gone", 1, 0), Duration::from_millis(1));
    let claimed = client.store().claim(ClaimParams::now(&queue, &dead, lease, 1)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    tokio::time::sleep(lease * 20).await;
    assert_eq!(tidemill::settle::expired::rescue(&**client.store(), &[queue], lease).await.unwrap(), 1);
    assert_eq!(listener.next(), format!("lost {}", handle.id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_hears_of_ends() {
    let world = World::new();
    let client = world.woken().await;
    let mut listener = Listener::start(&world.redis, "other", 0);
    let handle = client.job(Ping(1)).keep_result(Duration::from_secs(60)).enqueue().await.unwrap();
    let worker = Background::start(&client);
    assert_eq!(listener.next(), format!("chain {}", handle.id()));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn we_hear_of_its_ends_and_losses() {
    let world = World::new();
    let client = world.woken().await;
    let mut wakes = client.store().subscribe();
    until("the subscription", || world.subscribers("queuert:owls") == 1).await;
    let id = JobId::generate();
    for (channel, wake) in [("chainc", Wake::Finished(id.clone())), ("owls", Wake::LeaseLost(id.clone()))] {
        world.redis.command(&["PUBLISH", &format!("queuert:{channel}"), id.as_str()]).unwrap();
        while wakes.next().await != Some(wake.clone()) {}
    }
}

/// This many idle claims of ours and idle workers of theirs, and a hint for this many jobs that do
/// not exist. Returns how many of ours and of theirs have polled, and how much of the hint is left.
async fn share(ours: usize, theirs: usize, jobs: usize) -> (usize, usize, usize) {
    let world = World::new();
    let client = world.woken().await;
    let store = client.store().clone();
    store.resume(&queue()).await.unwrap();
    let mut listener = Listener::start(&world.redis, "mail", theirs);
    let (queue, worker) = (queue(), HolderId::from_process("test", 1, 0));
    let mut claims = FuturesUnordered::new();
    for _ in 0..ours {
        let claim = ClaimParams::now(&queue, &worker, Duration::from_secs(30), 1);
        claims.push(store.claim(ClaimParams { wait: Duration::from_secs(600), ..claim }));
    }
    let rest = async |claims: &mut FuturesUnordered<_>| {
        let _ = tokio::time::timeout(Duration::from_millis(700), claims.next()).await;
    };
    // All are waiting, and have polled because the subscription had just begun.
    assert!(claims.next().now_or_never().is_none());
    let mut before = 0;
    while world.subscribers("queuert:sched") < 2 || store.commands() > before {
        before = store.commands();
        rest(&mut claims).await;
    }
    let hint = run(&world.redis, &["notify", "mail", &jobs.to_string()]);
    let words = tokio::task::spawn_blocking(move || listener.workers(theirs));
    let words = tokio::select! {
        words = words => words.unwrap(),
        _ = claims.next() => panic!("there is nothing to claim"),
    };
    rest(&mut claims).await;
    let looked = store.commands() - before;
    let left = world.redis.command(&["GET", &format!("queuert:hint:{hint}")]).unwrap().parse().unwrap();
    (looked as usize, words.iter().filter(|word| *word == "query").count(), left)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_for_fewer_jobs_than_there_are_workers_is_shared_by_both() {
    let (ours, theirs, left) = share(10, 10, 6).await;
    assert_eq!((ours + theirs, left), (6, 0), "{ours} of ours, {theirs} of theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_for_more_jobs_than_there_are_workers_calls_them_all_once() {
    let (ours, theirs, left) = share(10, 7, 100).await;
    assert_eq!((ours, theirs, left), (10, 7, 83));
}
