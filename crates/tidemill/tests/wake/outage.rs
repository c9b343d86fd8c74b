//! Outages of Redis do not affect jobs.

use std::time::Duration;

use crate::world::{Background, Ping, World, unheard, until};

#[tokio::test(flavor = "multi_thread")]
async fn everything_drains_while_redis_is_killed_and_restarted() {
    let world = World::new();
    let (maker, client) = (world.usual().await, world.usual().await);
    let mut worker = Background::start(&client);
    let mut left: Vec<u32> = (0..60).collect();
    for number in 0..60 {
        match number {
            20 => world.redis.kill().unwrap(),
            40 => world.redis.restart().unwrap(),
            _ => {}
        }
        // No enqueue fails.
        maker.job(Ping(number)).enqueue().await.unwrap();
    }
    while !left.is_empty() {
        let begun = worker.next().await;
        left.retain(|number| *number != begun);
    }
    until("the subscription", || world.subscribers("queuert:sched") == 1).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_wake_ups_arrive_again() {
    let world = World::new();
    let (maker, client, silent) = (world.woken().await, world.woken().await, world.silent().await);
    let mut worker = Background::start(&client);
    until("the subscription", || world.subscribers("queuert:sched") == 1).await;
    unheard(&silent, &mut worker, 1).await;
    // After the outage all workers poll, so this job starts without a wake-up.
    world.redis.restart().unwrap();
    assert_eq!(worker.next().await, 1);
    // Until both sides are connected again, wake-ups may be lost; the worker polls once an hour.
    let mut number = 2;
    loop {
        maker.job(Ping(number)).enqueue().await.unwrap();
        match tokio::time::timeout(Duration::from_millis(300), worker.begun.recv()).await {
            Ok(begun) => break assert!(begun.is_some_and(|begun| begun >= 2)),
            Err(_) => number += 1,
        }
        assert!(number < 200, "nothing wakes the worker");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_hint_is_ever_without_a_ttl() {
    let world = World::new();
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(Background::start(&world.woken().await));
    }
    let maker = world.woken().await;
    let load = async {
        for number in 0..200 {
            maker.jobs((0..5).map(|_| Ping(number))).enqueue().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let mut load = Box::pin(load);
    let mut seen = 0;
    loop {
        let done = tokio::time::timeout(Duration::from_millis(10), &mut load).await.is_ok();
        let (immortal, all) = world.hints();
        assert_eq!(immortal, 0, "of {all} hints");
        seen = seen.max(all);
        if done {
            break;
        }
    }
    assert!(seen > 0, "there were hints");
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(world.hints().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_store_that_is_woken_through_redis_does_not_listen() {
    let world = World::new();
    let client = world.woken().await;
    let worker = Background::start(&client);
    until("the subscription", || world.subscribers("queuert:sched") == 1).await;
    // PostgreSQL shows the last statement of every connection.
    let (client, connection) = tokio_postgres::connect(&world.database, tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let listening =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    assert!(client.query(listening, &[]).await.unwrap().is_empty());
    driver.abort();
    worker.stop().await;
}
