//! Behind Sentinels: credentials of all kinds, and wake-ups that follow the master.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidemill_core::store::{Jobs, SettleParams};
use tidemill_core::wake::{Bus, PollInterval, Transport, Wake};
use tidemill_core::{Clock, Error, JobId, Queue, QueueName, Timestamp};
use tidemill_redis::{RedisOptions, RedisStore, RedisTransport};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::conformance::harness::{done, job};
use tidemill_testkit::servers::{RedisOptions as ServerOptions, RedisSentinel};

/// The clock of this machine.
#[derive(Debug)]
struct LocalClock;

impl Clock for LocalClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

const PATIENCE: Duration = Duration::from_secs(120);

async fn connect(url: &str) -> Result<Arc<RedisStore>, Error> {
    RedisStore::connect(RedisOptions::parse(url).unwrap()).await.map(Arc::new)
}

#[tokio::test(flavor = "multi_thread")]
async fn users_databases_and_passwords_of_sentinels_are_used_and_never_shown() {
    let users = [
        ["--user", "worker", "on", ">hunter2", "~*", "&*", "+@all", "-@dangerous", "+role"],
        ["--user", "roleless", "on", ">hunter2", "~*", "&*", "+@all", "-@dangerous", "-role"],
    ];
    let args = users.iter().flatten().map(|word| (*word).to_owned()).collect();
    let options = ServerOptions { args, ..ServerOptions::default() };
    let sentinel = RedisSentinel::with(options, Some("hunter3")).unwrap();
    let hosts = sentinel.hosts();
    let url = |user: &str, password: &str, master: &str| {
        format!("redis+sentinel://{user}:hunter2@{hosts}/{master}/2?sentinel_password={password}")
    };
    let store = connect(&url("worker", "hunter3", "mymaster")).await.unwrap();
    let scene = QueueHarness::new(store, Queue::at_least_once(QueueName::new("mail").unwrap()));
    scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    scene.settle(&claimed, done()).await;
    assert!(sentinel.servers()[0].command(&["INFO", "keyspace"]).unwrap().contains("db2:keys="));
    for (url, named) in [
        (url("roleless", "hunter3", "mymaster"), "ACL SETUSER roleless +role"),
        (
            url("worker", "hunter4", "mymaster"),
            "refused a password or a user: Password authentication failed",
        ),
        (url("worker", "hunter3", "yourmaster"), "yourmaster (by Sentinel 127.0.0.1:"),
    ] {
        let error = connect(&url).await.map(drop).unwrap_err().full_message();
        assert!(error.contains(named) && !error.contains("hunter"), "{named}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_the_next_master_does_not_give_are_named_before_a_script_is_sent() {
    let user = ["--user", "worker", "on", ">hunter2", "~*", "&*", "+@all"];
    let args = user.iter().map(|word| (*word).to_owned()).collect();
    let sentinel = RedisSentinel::with(ServerOptions { args, ..ServerOptions::default() }, None).unwrap();
    let url = format!("redis+sentinel://worker:hunter2@{}/mymaster?replicas=1", sentinel.hosts());
    let store = connect(&url).await.unwrap();
    let scene = QueueHarness::new(store.clone(), Queue::at_least_once(QueueName::new("mail").unwrap()));
    scene.enqueue(job()).await;
    let claimed = scene.claim_one().await;
    // Rights are not replicated.
    for server in &sentinel.servers()[1..] {
        server.command(&["ACL", "SETUSER", "worker", "-xdel"]).unwrap();
    }
    sentinel.servers()[0].kill().unwrap();
    let settlement = scene.settlement(&claimed, done());
    let refused = async {
        loop {
            match store.settle(SettleParams::current(std::slice::from_ref(&settlement))).await {
                Err(Error::Denied(why)) => break why,
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    let why = tokio::time::timeout(PATIENCE, refused).await.unwrap();
    assert!(why.contains("may not finish (it lacks XDEL): ACL SETUSER worker +xdel"), "{why}");
    assert!(!why.contains("hunter2"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_ups_follow_a_failover() {
    let sentinel = RedisSentinel::start().unwrap();
    let options = RedisOptions::parse(&sentinel.url()).unwrap();
    let process = async |options| {
        let transport = RedisTransport::connect(options).await.unwrap();
        let bus = Arc::new(Bus::with_transport(PollInterval::NEVER, Arc::new(LocalClock)));
        let run_bus = bus.clone();
        (bus, tokio::spawn(async move { transport.run(run_bus).await }))
    };
    let ((here, sending), (there, receiving)) = (process(options.clone()).await, process(options).await);
    let mut wakes = there.subscribe();
    sentinel.servers()[0].kill().unwrap();
    let mut number = 0;
    let heard = async {
        loop {
            // What is told while nobody listens yet is lost, so it is told again.
            number += 1;
            here.publish(Wake::LeaseLost(JobId::new(&format!("job-{number}")).unwrap()));
            here.flush().await;
            let soon = tokio::time::timeout(Duration::from_millis(300), wakes.next()).await;
            if let Ok(Some(Wake::LeaseLost(_))) = soon {
                let is_master = sentinel.servers()[1].command(&["INFO", "replication"]).unwrap();
                break assert!(is_master.contains("role:master"), "{is_master}");
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
    sending.abort();
    receiving.abort();
}
