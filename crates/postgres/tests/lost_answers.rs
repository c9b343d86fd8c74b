//! Responses that are lost between PostgreSQL and its clients.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidemill_core::store::{Inspect, Jobs};
use tidemill_core::{Client, Error, Job, JobId};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::lost_answers::{no_job_is_accepted_twice, one_enqueue_stays_one_job};
use tidemill_testkit::servers::shared_postgres;
use world::{connect, query, session};

#[derive(serde::Serialize, serde::Deserialize)]
struct Plain;

impl Job for Plain {
    const KIND: &'static str = "plain";
    type Output = ();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_enqueue_stays_one_job_when_its_answer_is_lost() {
    let server = shared_postgres();
    let url = server.database().unwrap();
    let proxy = Proxy::to(server.port()).await.unwrap();
    let through = Arc::new(connect(&proxy.url(&url)).await);
    one_enqueue_stays_one_job(through, &proxy, Arc::new(connect(&url).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_accepted_twice_while_backends_are_terminated() {
    let url = shared_postgres().database().unwrap();
    let (through, beside) = (Arc::new(connect(&url).await), Arc::new(connect(&url).await));
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tidemill'";
    let kill = async || drop(query(&url, cut).await);
    let acknowledged = no_job_is_accepted_twice(through, beside, Duration::from_secs(6), kill).await;
    assert!(acknowledged > 20, "{acknowledged} enqueues were acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_pruned_when_no_repeat_can_come() {
    let url = shared_postgres().database().unwrap();
    let store = Arc::new(connect(&url).await);
    let client = Client::new(store.clone());
    client.job(Plain).enqueue().await.unwrap();
    let count = "SELECT count(*) FROM tidemill.receipts";
    store.prune(&[]).await.unwrap();
    assert_eq!(query(&url, count).await, [["1"]]);
    let old = "UPDATE tidemill.receipts SET at = at - 200000;
        INSERT INTO tidemill.receipts (at, call) SELECT n, n FROM generate_series(1, 5000) n";
    query(&url, old).await;
    while store.prune(&[]).await.unwrap().more {}
    assert_eq!(query(&url, count).await, [["0"]]);
}

/// An open transaction has locked one caller's id. Callers with generated ids do not wait for it,
/// and callers with other chosen ids do not fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_id_fails_nobody_else() {
    let url = shared_postgres().database().unwrap();
    let store = Arc::new(connect(&url).await);
    let client = Client::new(store.clone());
    client.job(Plain).enqueue().await.unwrap();
    let user = session(&url).await;
    user.batch_execute("BEGIN; SELECT tidemill.enqueue('default', 'plain', id => 'mine')").await.unwrap();
    let began = Instant::now();
    let named = (0..40)
        .map(|n| client.job(Plain).id(&if n == 7 { "mine".into() } else { format!("j{n}") }).enqueue());
    let fresh = async {
        let answers = join_all((0..40).map(|_| client.job(Plain).enqueue())).await;
        (answers, began.elapsed())
    };
    let (named, (fresh, waited)) = tokio::join!(join_all(named), fresh);
    let took = began.elapsed();
    for (n, answer) in named.into_iter().enumerate() {
        match n {
            7 => assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}"),
            _ => assert!(answer.is_ok(), "{answer:?}"),
        }
    }
    fresh.into_iter().for_each(|answer| drop(answer.unwrap()));
    assert!(waited < took, "jobs with ids of their own took {waited:?}, as long as the locked one");
    user.batch_execute("ROLLBACK").await.unwrap();
    assert!(store.get_job(&JobId::new("mine").unwrap()).await.unwrap().is_none());
}
