//! The keys that every verb leaves on one server, compared with `tests/dumps/redis.txt`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::fixtures::{Dump, VerbRunner, run_every_verb};
use tidemill_testkit::servers::Redis;

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_leaves_the_same_keys() {
    let server = Redis::start().unwrap();
    let store = RedisStore::connect(RedisOptions::parse(&server.url()).unwrap()).await.unwrap();
    run_every_verb(&VerbRunner::new(Arc::new(store))).await;
    let client = redis::Client::open(server.url()).unwrap();
    let mut reader = Reader(client.get_multiplexed_async_connection().await.unwrap());
    let expected = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dumps/redis.txt");
    reader.dump().await.assert_matches(Path::new(expected));
}

struct Reader(MultiplexedConnection);

impl Reader {
    async fn dump(&mut self) -> Dump {
        let mut keys: Vec<String> = self.ask(&["KEYS", "*"]).await;
        keys.sort();
        let mut dump = Dump::default();
        for key in keys {
            self.add_key(&mut dump, &key).await;
        }
        dump
    }

    async fn add_key(&mut self, dump: &mut Dump, key: &str) {
        let kind: String = self.ask(&["TYPE", key]).await;
        let ttl: i64 = self.ask(&["PTTL", key]).await;
        let title = format!("{key} ({kind}{})", if ttl < 0 { "" } else { ", expires" });
        match kind.as_str() {
            // The record of a run: a script writes its fields in any order.
            "string" if key.contains(":instances-") => {
                let json: Vec<u8> = self.ask(&["GET", key]).await;
                dump.add_ordered(&title, [Dump::show_json(&json)]);
            }
            "string" => dump.add_ordered(&title, [self.ask::<Text>(&["GET", key]).await.0]),
            "list" => {
                let items: Vec<Text> = self.ask(&["LRANGE", key, "0", "-1"]).await;
                dump.add_ordered(&title, items.into_iter().map(|item| item.0));
            }
            "set" => {
                let items: Vec<Text> = self.ask(&["SMEMBERS", key]).await;
                dump.add_sorted(&title, items.into_iter().map(|item| item.0));
            }
            "hash" => {
                let fields: BTreeMap<String, Text> = self.ask(&["HGETALL", key]).await;
                dump.add_sorted(
                    &title,
                    fields.into_iter().map(|(name, value)| format!("{name}: {}", value.0)),
                );
            }
            "zset" => {
                let members: Vec<(Text, String)> = self.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).await;
                let shown = members.into_iter().map(|(member, score)| format!("{score}: {}", member.0));
                dump.add_sorted(&title, shown);
            }
            _ => dump.add_ordered(&title, self.stream(key).await),
        }
    }

    /// The entries of a stream, its groups and what each has pending.
    async fn stream(&mut self, key: &str) -> Vec<String> {
        let entries: Value = self.ask(&["XRANGE", key, "-", "+"]).await;
        let mut lines: Vec<String> = items(entries).into_iter().map(|entry| show(&entry)).collect();
        let groups: Vec<BTreeMap<String, Value>> = self.ask(&["XINFO", "GROUPS", key]).await;
        for group in groups {
            let name = String::from_redis_value(group["name"].clone()).unwrap();
            lines.push(format!("group {name} at {}", show(&group["last-delivered-id"])));
            let pending: Vec<(String, String, u64, u64)> =
                self.ask(&["XPENDING", key, &name, "-", "+", "1000"]).await;
            let shown = pending
                .into_iter()
                .map(|(id, consumer, _, deliveries)| format!("pending {id} {consumer} {deliveries}"));
            lines.extend(shown);
        }
        lines
    }

    async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.0).await.unwrap()
    }
}

/// Bytes, shown as text.
struct Text(String);

impl FromRedisValue for Text {
    fn from_redis_value(value: Value) -> Result<Self, redis::ParsingError> {
        Ok(Self(Dump::show_bytes(&Vec::<u8>::from_redis_value(value)?)))
    }
}

fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => vec![other],
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(show).collect::<Vec<_>>().join(" "),
        Value::BulkString(bytes) => Dump::show_bytes(bytes),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
