//! Stores on the shared servers, each in a namespace of its own.

#![allow(dead_code, reason = "each test program uses what it needs")]

pub(crate) mod mortal;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redis::aio::MultiplexedConnection;
use tidemill_core::{Namespace, Store};
use tidemill_redis::{RedisOptions, RedisStore, worker_rules};
use tidemill_testkit::conformance::StoreUnderTest;
use tidemill_testkit::servers::{Redis, shared_cluster, shared_redis};

pub(crate) async fn one_server() -> StoreUnderTest {
    let url = shared_redis().url();
    let (options, namespace) = fresh(&url);
    subject(options, namespace, vec![url]).await
}

/// One server, as a user who may do what a worker needs and nothing else.
pub(crate) async fn least_privileged() -> StoreUnderTest {
    let redis = shared_redis();
    let (_, namespace) = fresh(&redis.url());
    let user = format!("worker-{}", namespace.as_str().trim_end_matches(':'));
    set_user(redis, &user, &worker_rules(&namespace));
    let options = RedisOptions::parse(&url_of(redis, &user)).unwrap().namespace(namespace.clone());
    subject(options, namespace, vec![redis.url()]).await
}

/// The password of every user that a test makes.
pub(crate) const PASSWORD: &str = "hunter2";

/// Makes a user with these rules and no others.
pub(crate) fn set_user(redis: &Redis, user: &str, rules: &str) {
    let password = format!(">{PASSWORD}");
    let mut command = vec!["ACL", "SETUSER", user, "reset", "on", &password];
    command.extend(rules.split_whitespace());
    redis.command(&command).unwrap();
}

/// Where a server is for a user.
pub(crate) fn url_of(redis: &Redis, user: &str) -> String {
    format!("redis://{user}:{PASSWORD}@127.0.0.1:{}", redis.port())
}

pub(crate) async fn cluster() -> StoreUnderTest {
    let cluster = shared_cluster();
    let (options, namespace) = fresh(&cluster.url());
    let nodes = cluster.nodes().iter().map(|node| node.url()).collect();
    subject(options, namespace, nodes).await.sharded()
}

fn fresh(url: &str) -> (RedisOptions, Namespace) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}:", NUMBER.fetch_add(1, Ordering::Relaxed));
    let namespace = Namespace::new(&name).unwrap();
    (RedisOptions::parse(url).unwrap().namespace(namespace.clone()), namespace)
}

async fn subject(options: RedisOptions, namespace: Namespace, servers: Vec<String>) -> StoreUnderTest {
    let store = Arc::new(RedisStore::connect(options.clone()).await.unwrap());
    let reopen = move || {
        let options = options.clone();
        async move { Arc::new(RedisStore::connect(options).await.unwrap()) as Arc<dyn Store> }
    };
    let leftovers = move || left_behind(servers.clone(), namespace.clone());
    StoreUnderTest::new(store, ()).reopen(reopen).leftovers(leftovers)
}

/// Every key of a namespace that holds something beyond the registry of queues, what is in it, and every
/// consumer. Receipts expire by themselves, and so do notes of what was given up; an empty stream keeps its group, which is its position.
pub(crate) async fn left_behind(servers: Vec<String>, namespace: Namespace) -> Vec<String> {
    let mut left = Vec::new();
    for server in servers {
        let client = redis::Client::open(server).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let pattern = format!("*{namespace}*");
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut connection).await.unwrap();
        for key in keys {
            left.extend(remains(&mut connection, key).await);
        }
    }
    left
}

async fn remains(connection: &mut MultiplexedConnection, key: String) -> Option<String> {
    if key.ends_with(":queues") || key.contains(":receipt:") || key.ends_with(":released") {
        return None;
    }
    let kind: String = redis::cmd("TYPE").arg(&key).query_async(connection).await.unwrap();
    if kind != "stream" {
        return Some(format!("{kind} {key}"));
    }
    let length: u64 = redis::cmd("XLEN").arg(&key).query_async(connection).await.unwrap();
    let groups: Vec<redis::Value> =
        redis::cmd("XINFO").arg("GROUPS").arg(&key).query_async(connection).await.unwrap();
    let described = format!("{groups:?}");
    let idle = described.contains("simple-string(\"consumers\"), int(0)")
        || described.contains("bulk-string('\"consumers\"'), int(0)");
    (length > 0 || !(groups.is_empty() || idle)).then(|| format!("stream {key} of {length}: {described}"))
}
