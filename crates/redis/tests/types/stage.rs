//! A server of its own, whose keys are spoiled one after the other.

use std::sync::Arc;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tidemill_core::{Error, Guarantee, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::servers::Redis;

pub(crate) const PREFIX: &str = "tidemill:";

const GROUP: &str = "tidemill-workers";

/// What is wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoiled {
    /// It is of another type.
    Type,
    /// What it holds are no numbers, or infinite ones.
    Values,
}

/// Which key is spoiled.
#[derive(Debug, Clone)]
pub(crate) enum Which {
    /// The one with this name behind the prefix.
    Named(String),
    /// One of those that are there, in the order of their names: some names are random.
    Nth(usize),
}

pub(crate) struct Stage {
    redis: Redis,
    pub(crate) store: Arc<RedisStore>,
    connection: MultiplexedConnection,
}

/// How one case ended.
pub(crate) enum Played {
    /// There is no such key.
    NoKey,
    Right,
    Wrong(String),
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let redis = Redis::start().unwrap();
        let store = Arc::new(RedisStore::connect(RedisOptions::parse(&redis.url()).unwrap()).await.unwrap());
        let client = redis::Client::open(redis.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { redis, store, connection }
    }

    pub(crate) fn ask(&self, command: &[&str]) -> String {
        self.redis.command(command).unwrap()
    }

    pub(crate) fn scene(&self, delivery: Guarantee) -> QueueHarness {
        QueueHarness::new(
            self.store.clone(),
            Queue { name: QueueName::new("q").unwrap(), guarantee: delivery },
        )
    }

    async fn send(&self, command: &[&str]) -> Value {
        let (name, args) = command.split_first().unwrap();
        let mut connection = self.connection.clone();
        redis::cmd(name).arg(args).query_async(&mut connection).await.unwrap()
    }

    async fn list(&self, command: &[&str]) -> Vec<String> {
        redis::from_redis_value(self.send(command).await).unwrap()
    }

    async fn keys(&self) -> Vec<String> {
        let mut keys = self.list(&["KEYS", "*"]).await;
        keys.sort();
        keys
    }

    /// Every key with all it holds. Of a stream its entries and what is pending: a transaction that removes its entries
    /// again leaves the last id that the stream has given out.
    async fn everything(&self) -> Vec<(String, Vec<Value>)> {
        let mut all = Vec::new();
        for key in self.keys().await {
            let mut connection = self.connection.clone();
            let held = if self.kind(&key).await == "stream" {
                let entries = self.send(&["XRANGE", &key, "-", "+"]).await;
                let pending = redis::cmd("XPENDING").arg(&key).arg(GROUP).query_async(&mut connection).await;
                vec![entries, pending.unwrap_or(Value::Nil)]
            } else {
                vec![self.send(&["DUMP", &key]).await]
            };
            all.push((key, held));
        }
        all
    }

    async fn kind(&self, key: &str) -> String {
        redis::from_redis_value(self.send(&["TYPE", key]).await).unwrap()
    }

    pub(crate) async fn spoil(&self, key: &str, how: Spoiled) {
        let was = self.kind(key).await;
        match (how, was.as_str()) {
            (Spoiled::Type, "string" | "none") if was == "string" || is_text(key) => {
                self.send(&["DEL", key]).await;
                self.send(&["HSET", key, "wrong", "type"]).await;
            }
            (Spoiled::Type, _) => {
                self.send(&["SET", key, "wrong type"]).await;
            }
            (Spoiled::Values, "string") => {
                let text: String = redis::from_redis_value(self.send(&["GET", key]).await).unwrap();
                // The state of a run stays one but for a number.
                let endless = text.replace("\"length\":", "\"length\":1e99");
                let new = if endless == text { "no number".to_owned() } else { endless };
                self.send(&["SET", key, &new]).await;
            }
            (Spoiled::Values, "hash") => {
                for field in self.list(&["HKEYS", key]).await {
                    self.send(&["HSET", key, &field, "no number"]).await;
                }
            }
            (Spoiled::Values, "zset") => {
                for member in self.list(&["ZRANGE", key, "0", "-1"]).await {
                    self.send(&["ZADD", key, "inf", &member]).await;
                    self.send(&["ZADD", key, "-inf", &format!("{member} no number")]).await;
                }
            }
            (Spoiled::Values, "list") => {
                for position in 0..self.list(&["LRANGE", key, "0", "-1"]).await.len() {
                    self.send(&["LSET", key, &position.to_string(), "no job"]).await;
                }
            }
            (Spoiled::Values, "set") => {
                self.send(&["SADD", key, "no number"]).await;
            }
            (Spoiled::Values, "stream") => {
                self.send(&["XADD", key, "*", "neither", "this"]).await;
            }
            (Spoiled::Values, _) => {}
        }
    }

    /// Plays a case with one key spoiled.
    pub(crate) async fn play<T>(
        &self,
        verb: &str,
        (which, how): (&Which, Spoiled),
        prepare: impl AsyncFnOnce() -> T,
        act: impl AsyncFnOnce(&T) -> Result<(), Error>,
    ) -> Played {
        self.send(&["FLUSHDB"]).await;
        let scenery = prepare().await;
        let key = match which {
            Which::Named(name) => format!("{PREFIX}{name}"),
            Which::Nth(number) => match self.keys().await.into_iter().nth(*number) {
                Some(key) => key,
                None => return Played::NoKey,
            },
        };
        self.spoil(&key, how).await;
        let before = self.everything().await;
        let Err(error) = act(&scenery).await else { return Played::Right };
        let after = self.everything().await;
        let all = before.iter().chain(&after);
        let changed = all.filter(|one| !(before.contains(one) && after.contains(one)));
        let changed: Vec<_> = changed.map(|(key, _)| key.as_str()).collect();
        let case = format!("{verb} with {how:?} of `{key}` spoiled");
        if !changed.is_empty() {
            return Played::Wrong(format!("{case} changed {changed:?} and failed: {error}"));
        }
        if how == Spoiled::Type && !error.to_string().contains(&key) {
            return Played::Wrong(format!("{case} failed without its name: {error}"));
        }
        Played::Right
    }

    /// Plays a verb with each of these keys, and each that is there, spoiled in each way; says what was wrong.
    pub(crate) async fn play_all<T>(
        &self,
        verb: &str,
        names: &[String],
        prepare: impl AsyncFn() -> T,
        act: impl AsyncFn(&T) -> Result<(), Error>,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for how in [Spoiled::Type, Spoiled::Values] {
            // Of a key that is not there, there are no values.
            let named = names.iter().filter(|_| how == Spoiled::Type).cloned().map(Which::Named);
            for which in named.chain((0..).map(Which::Nth)) {
                match self.play(verb, (&which, how), &prepare, &act).await {
                    Played::NoKey => break,
                    Played::Right => {}
                    Played::Wrong(what) => wrong.push(what),
                }
            }
        }
        wrong
    }
}

/// Whether a key holds a string if there is one.
fn is_text(key: &str) -> bool {
    let name = key.strip_prefix(PREFIX).unwrap_or(key);
    let families = ["key:", "job:", "run-key:", "instances-", "worker:cmd:"];
    families.iter().any(|family| name.starts_with(family)) || name.ends_with(":paused")
}
