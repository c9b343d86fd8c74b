//! Servers that an older build has written to: their jobs work.
//!
//! A Redis store has no schema version, because its keys are read by other programs. The fixture
//! `v1` has the keys of the first build with fixtures. A build that writes other keys adds a fixture.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::servers::Redis;
use tidemill_testkit::upgrade::{self, Fixtures};

/// The fixture that this build would write.
const NEWEST: usize = 1;

fn fixtures() -> Fixtures {
    Fixtures::new(env!("CARGO_MANIFEST_DIR"), "jsonl")
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_every_older_build_work() {
    for (version, fixture) in fixtures().all() {
        println!("version {version}");
        let server = Redis::start().unwrap();
        let mut connection = connect(&server).await;
        for line in fixture.lines() {
            let words: Vec<String> = serde_json::from_str(line).unwrap();
            ask::<Value>(&mut connection, words).await;
        }
        upgrade::check(open(&server).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_build_has_a_fixture() {
    if fixtures().read(NEWEST).is_none() {
        let server = Redis::start().unwrap();
        upgrade::fill(open(&server).await).await;
        fixtures().write(NEWEST, &dump(&mut connect(&server).await).await);
    }
}

async fn open(server: &Redis) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(RedisOptions::parse(&server.url()).unwrap()).await.unwrap())
}

async fn connect(server: &Redis) -> MultiplexedConnection {
    redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn ask<T: FromRedisValue>(connection: &mut MultiplexedConnection, words: Vec<String>) -> T {
    let mut command = redis::cmd(&words[0]);
    command.arg(&words[1..]);
    command.query_async(connection).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The commands that make the same keys, one JSON array a line.
async fn dump(connection: &mut MultiplexedConnection) -> String {
    let mut keys: Vec<String> = ask(connection, words(&["KEYS", "*"])).await;
    keys.sort();
    let mut commands = Vec::new();
    for key in &keys {
        commands.extend(dump_key(connection, key).await);
        let expires: i64 = ask(connection, words(&["PTTL", key])).await;
        if expires > 0 {
            let at = u64::try_from(expires).unwrap() + now_ms();
            commands.push(words(&["PEXPIREAT", key, &at.to_string()]));
        }
    }
    commands.iter().map(|command| serde_json::to_string(command).unwrap() + "\n").collect()
}

async fn dump_key(connection: &mut MultiplexedConnection, key: &str) -> Vec<Vec<String>> {
    let kind: String = ask(connection, words(&["TYPE", key])).await;
    let (read, write): (&[&str], &str) = match kind.as_str() {
        "string" => (&["GET", key], "SET"),
        "list" => (&["LRANGE", key, "0", "-1"], "RPUSH"),
        "set" => (&["SMEMBERS", key], "SADD"),
        "hash" => (&["HGETALL", key], "HSET"),
        "zset" => (&["ZRANGE", key, "0", "-1", "WITHSCORES"], "ZADD"),
        _ => return dump_stream(connection, key).await,
    };
    let value: Value = ask(connection, words(read)).await;
    let mut values = match value {
        Value::BulkString(_) => vec![String::from_redis_value(value).unwrap()],
        _ => Vec::<String>::from_redis_value(value).unwrap(),
    };
    if kind == "zset" {
        // ZADD wants the score first.
        values.chunks_mut(2).for_each(|pair| pair.swap(0, 1));
    }
    vec![[words(&[write, key]), values].concat()]
}

/// Entries, groups, and what each consumer has pending, with the time of its delivery.
async fn dump_stream(connection: &mut MultiplexedConnection, key: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let entries: Vec<(String, Vec<String>)> = ask(connection, words(&["XRANGE", key, "-", "+"])).await;
    for (id, fields) in entries {
        commands.push([words(&["XADD", key, &id]), fields].concat());
    }
    let groups: Vec<BTreeMap<String, Value>> = ask(connection, words(&["XINFO", "GROUPS", key])).await;
    for group in groups {
        let text = |field: &str| String::from_redis_value(group[field].clone()).unwrap();
        let name = text("name");
        commands.push(words(&["XGROUP", "CREATE", key, &name, &text("last-delivered-id"), "MKSTREAM"]));
        let range = words(&["XPENDING", key, &name, "-", "+", "1000"]);
        let pending: Vec<(String, String, u64, u64)> = ask(connection, range).await;
        for (id, consumer, idle, deliveries) in pending {
            let (time, count) = ((now_ms() - idle).to_string(), deliveries.to_string());
            let claim = ["XCLAIM", key, &name, &consumer, "0", &id, "TIME", &time, "RETRYCOUNT", &count];
            commands.push([words(&claim), words(&["FORCE", "JUSTID"])].concat());
        }
    }
    let info: BTreeMap<String, Value> = ask(connection, words(&["XINFO", "STREAM", key])).await;
    let last = String::from_redis_value(info["last-generated-id"].clone()).unwrap();
    commands.push(words(&["XSETID", key, &last]));
    commands
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    u64::try_from(now).unwrap()
}
