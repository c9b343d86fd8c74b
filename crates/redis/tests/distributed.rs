//! playwright-distributed 0.3 beside the fleet: its worker behind our gateways, our members behind its proxy.
//!
//! The other side is played with plain commands, as its release sends them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::slice::from_ref;
use std::sync::Arc;

use tidemill_core::fleet::{Offer, WorkerKey};
use tidemill_core::store::fleet::{LeaseParams, Leased, Reaped, WorkerStatus};
use tidemill_core::{Namespace, Store};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::{FleetHarness, chromium};
use tidemill_testkit::servers::Redis;

/// What its proxy chooses among: workers whose key has a TTL, whose type is right and that are available. It counts what it has
/// chosen.
const SELECTOR: &str = "
local best
for _, id in ipairs(redis.call('HKEYS', 'cluster:active_connections')) do
  local key = 'worker:' .. id
  local f = redis.call('HMGET', key, 'browserType', 'status')
  local active = tonumber(redis.call('HGET', 'cluster:active_connections', id))
  local lifetime = tonumber(redis.call('HGET', 'cluster:lifetime_connections', id) or 0)
  if redis.call('TTL', key) > 0 and f[1] == ARGV[1] and f[2] == 'available' and active < 5 and lifetime < 50 then
    if not best or lifetime > best.lifetime then best = { id = id, lifetime = lifetime } end
  end
end
if not best then return '' end
redis.call('HINCRBY', 'cluster:active_connections', best.id, 1)
redis.call('HINCRBY', 'cluster:lifetime_connections', best.id, 1)
return best.id";

const ENDPOINT: &str = "ws://worker:3131/playwright/abc123";

struct Stage {
    redis: Redis,
    store: Arc<RedisStore>,
    yard: FleetHarness,
}

impl Stage {
    async fn new() -> Self {
        let redis = Redis::start().unwrap();
        let options = RedisOptions::parse(&redis.url()).unwrap().namespace(Namespace::new("").unwrap());
        let store = Arc::new(RedisStore::connect(options).await.unwrap());
        Self { redis, yard: FleetHarness::new(store.clone()), store }
    }

    fn ask(&self, command: &str) -> String {
        self.redis.command(&command.split_whitespace().collect::<Vec<_>>()).unwrap()
    }

    /// In milliseconds, as its worker says it.
    fn now(&self) -> i64 {
        self.store.clock().now().0
    }

    /// What its worker does when it starts, and when it finds its key gone.
    fn register(&self, name: &str) -> WorkerKey {
        let (key, now) = (format!("worker:chromium:{name}"), self.now());
        self.ask(&format!("HSETNX cluster:active_connections chromium:{name} 0"));
        self.ask(&format!("HSETNX cluster:lifetime_connections chromium:{name} 0"));
        let times = format!("startedAt {now} lastHeartbeat {now}");
        self.ask(&format!(
            "HSET {key} id {name} browserType chromium endpoint {ENDPOINT} status available {times}"
        ));
        self.ask(&format!("EXPIRE {key} 60"));
        format!("chromium:{name}").parse().unwrap()
    }

    /// What its proxy does for a client: which worker, and where that is.
    fn select(&self) -> Option<[String; 4]> {
        let id = self.redis.command(&["EVAL", SELECTOR, "0", "chromium"]).unwrap();
        let field = |name: &str| self.ask(&format!("HGET worker:{id} {name}"));
        (!id.is_empty()).then(|| [field("id"), field("endpoint"), field("startedAt"), id.clone()])
    }

    fn wish(&self) -> LeaseParams {
        LeaseParams { offers: vec![Offer::unspecified()], ..self.yard.lease_params() }
    }
}

#[tokio::test]
async fn its_worker_is_found_given_out_counted_and_ordered() {
    let stage = Stage::new().await;
    let id = stage.register("abc123");
    assert_eq!(stage.yard.reap().await.found, from_ref(&id));
    let wish = stage.wish();
    assert_eq!(stage.yard.lease_granted(&wish).await.endpoint, ENDPOINT);
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:abc123"), "1");
    let info = stage.yard.member(&id).await.unwrap();
    assert!(info.is_fresh && (stage.now() - info.last_beat.0).abs() < 60_000, "{info:?}");
    stage.yard.release(&wish.session).await;
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:abc123"), "0");

    // It beats, and later it does not.
    stage.ask(&format!("HSET worker:chromium:abc123 lastHeartbeat {}", stage.now()));
    stage.ask("EXPIRE worker:chromium:abc123 60");
    assert_eq!(stage.yard.reap().await, Reaped::default());
    for status in ["draining", "shutting-down"] {
        stage.ask(&format!("HSET worker:chromium:abc123 status {status}"));
        assert!(matches!(stage.yard.lease(&stage.wish()).await, Leased::Refused { .. }), "{status}");
        assert_eq!(stage.yard.reap().await, Reaped::default(), "{status}");
        assert_eq!(stage.yard.member(&id).await.unwrap().worker.status, WorkerStatus::Draining);
    }
    stage.ask(&format!("HSET worker:chromium:abc123 lastHeartbeat {}", stage.now() - 100_000));
    assert_eq!(stage.yard.reap().await.workers, [id]);
    assert_eq!(stage.ask("DBSIZE"), "0");
}

#[tokio::test]
async fn what_its_proxy_counts_is_kept_beside_our_leases() {
    let stage = Stage::new().await;
    let id = stage.register("a");
    stage.yard.reap().await;
    assert_eq!(stage.select().unwrap()[3], "chromium:a");
    let wish = stage.wish();
    stage.yard.lease_granted(&wish).await;
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:a"), "2");
    assert_eq!(stage.yard.counts(&id).await, (2, 2));
    // It registers again, because its key was gone, and keeps the counts.
    stage.ask("DEL worker:chromium:a");
    stage.register("a");
    assert_eq!(stage.yard.counts(&id).await, (2, 2));
    stage.yard.release(&wish.session).await;
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:a"), "1");
    stage.ask("HINCRBY cluster:active_connections chromium:a -1");
    assert_eq!(stage.yard.counts(&id).await, (0, 2));
    // Five of its clients leave no room for one of ours.
    for _ in 0..5 {
        assert!(stage.select().is_some());
    }
    assert!(matches!(stage.yard.lease(&stage.wish()).await, Leased::Refused { .. }));
    stage.ask("HINCRBY cluster:active_connections chromium:a -1");
    stage.yard.reap().await;
    stage.yard.lease_granted(&stage.wish()).await;
}

#[tokio::test]
async fn its_proxy_is_given_our_member_and_nobody_closes_it_meanwhile() {
    let stage = Stage::new().await;
    let member = chromium("ours", 1, 1);
    stage.yard.join_entry(&member).await;
    let [id, endpoint, started, _] = stage.select().unwrap();
    assert_eq!((id.as_str(), &endpoint), ("ours", &member.endpoint));
    assert!((stage.now() - started.parse::<i64>().unwrap()).abs() < 60_000, "in milliseconds");
    let orders = stage.yard.beat(&member).await;
    assert_eq!((orders.active, orders.lifetime), (1, 1), "its owner knows of the client");
    assert!(matches!(stage.yard.lease(&stage.yard.lease_params()).await, Leased::Refused { workers: 1, .. }));
    // The owner of a member that is used up says so, and the proxy sees it.
    stage
        .yard
        .beat(&tidemill_core::store::fleet::WorkerEntry { status: WorkerStatus::Draining, ..member.clone() })
        .await;
    assert_eq!(stage.select(), None);
    stage.ask("HINCRBY cluster:active_connections chromium:ours -1");
    assert_eq!(stage.yard.beat(&member).await.active, 0);
    assert_eq!(stage.ask("HGET worker:chromium:ours startedAt"), started, "a beat is no start");
}

#[tokio::test]
async fn what_a_dead_proxy_has_counted_is_forgotten() {
    let stage = Stage::new().await;
    let member = chromium("ours", 1, 1);
    stage.yard.join_entry(&member).await;
    stage.select().unwrap();
    assert_eq!(stage.yard.beat(&member).await.active, 1);
    // Nothing has changed for longer than it is believed.
    let since = stage.now() - 1_800_000;
    stage.redis.command(&["HSET", "fleet:counts", "chromium:ours", &format!("0 1 {since}")]).unwrap();
    assert_eq!(stage.yard.beat(&member).await.active, 0);
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:ours"), "0");
}

#[tokio::test]
async fn its_worker_hears_of_an_order_on_the_channel_too() {
    let stage = Stage::new().await;
    let id = stage.register("a");
    stage.yard.reap().await;
    let client = redis::Client::open(stage.redis.url()).unwrap();
    let mut ears = client.get_async_pubsub().await.unwrap();
    ears.subscribe("worker:cmd:chromium:a").await.unwrap();
    assert!(stage.yard.fleet().drain(&id).await.unwrap());
    let message = futures_util::StreamExt::next(&mut ears.on_message()).await.unwrap();
    assert_eq!(message.get_payload::<String>().unwrap(), "shutdown");
    assert_eq!(stage.ask("GET worker:cmd:chromium:a"), "shutdown");
}

#[tokio::test]
async fn an_entry_that_cannot_be_used_is_reported_with_the_reason() {
    let stage = Stage::new().await;
    let good = stage.register("good");
    let now = stage.now();
    for (name, fields) in [
        ("nowhere", format!("browserType chromium status available lastHeartbeat {now}")),
        ("sleepy", format!("browserType chromium endpoint ws://x status asleep lastHeartbeat {now}")),
        ("late", "browserType chromium endpoint ws://x status available lastHeartbeat soon".to_owned()),
        ("tls", format!("browserType chromium endpoint wss://x status available lastHeartbeat {now}")),
        ("odd", format!("browserType firefox endpoint ws://x status available lastHeartbeat {now}")),
    ] {
        stage.ask(&format!("HSET worker:chromium:{name} {fields}"));
        stage.ask(&format!("HSET cluster:lifetime_connections chromium:{name} 0"));
    }
    stage.redis.command(&["HSET", "cluster:lifetime_connections", "two words", "0"]).unwrap();
    let reaped = stage.yard.reap().await;
    assert_eq!((reaped.found, reaped.workers), (vec![good], Vec::new()));
    let mut said: Vec<_> =
        reaped.unusable.iter().map(|entry| format!("{}: {}", entry.name, entry.reason)).collect();
    said.sort();
    assert_eq!(
        said,
        [
            "chromium:late: lastHeartbeat is not a time",
            "chromium:nowhere: wsEndpoint and endpoint are missing",
            "chromium:odd: browserType is not chromium",
            "chromium:sleepy: status is not available, draining or shutting-down",
            "chromium:tls: its endpoint is not a ws:// address",
            "two words: it is not called KIND:NAME",
        ]
    );
}
