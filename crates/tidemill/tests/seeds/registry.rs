//! The registry of workers: other programs register, send heartbeats, select, count, order and reap
//! with plain commands, next to our workers and gateways.

use serde_json::{Value, json};
use tidemill::store::fleet::{LeaseParams, Leased};
use tidemill_testkit::conformance::harness::{FleetHarness, chromium, offer};

use crate::world::World;

/// A selector of another program, as its documentation describes it.
const SELECTOR: &str = "
local workers, best, fallback = redis.call('KEYS', 'worker:' .. ARGV[1] .. ':*'), nil, nil
local margin = math.max(1, math.floor(tonumber(ARGV[3]) / math.max(1, #workers)))
for _, key in ipairs(workers) do
  local id = string.sub(key, #'worker:' + 1)
  local active = tonumber(redis.call('HGET', KEYS[1], id) or 0)
  local lifetime = tonumber(redis.call('HGET', KEYS[2], id) or 0)
  local fresh = tonumber(ARGV[4]) - tonumber(redis.call('HGET', key, 'lastHeartbeat')) < 60
  if redis.call('HGET', key, 'status') == 'available' and fresh and active < tonumber(ARGV[2])
    and lifetime < tonumber(ARGV[3]) then
    if lifetime < tonumber(ARGV[3]) - margin and (not best or lifetime > best.lifetime) then
      best = { id = id, key = key, lifetime = lifetime }
    end
    fallback = { id = id, key = key, lifetime = lifetime }
  end
end
local chosen = best or fallback
if not chosen then return nil end
redis.call('HINCRBY', KEYS[1], chosen.id, 1)
redis.call('HINCRBY', KEYS[2], chosen.id, 1)
return redis.call('HGET', chosen.key, 'wsEndpoint')";

/// Its reaper.
const REAPER: &str = "
local reaped = 0
for _, key in ipairs(redis.call('KEYS', 'worker:*:*')) do
  local beat = redis.call('TYPE', key).ok == 'hash' and tonumber(redis.call('HGET', key, 'lastHeartbeat'))
  if beat and tonumber(ARGV[1]) - beat > tonumber(ARGV[2]) then
    local id = string.sub(key, #'worker:' + 1)
    redis.call('DEL', key)
    redis.call('HDEL', 'cluster:active_connections', id)
    redis.call('HDEL', 'cluster:lifetime_connections', id)
    reaped = reaped + 1
  end
end
return reaped";

const ENDPOINT: &str = "ws://worker:3131/playwright/chromium/x";

fn yard(world: &World) -> FleetHarness {
    FleetHarness::new(world.client.store().clone())
}

fn now(world: &World) -> i64 {
    world.client.store().clock().now().0 / 1000
}

/// The commands of a worker when it starts.
fn register(world: &World, name: &str) {
    let fields =
        format!("browserType chromium wsEndpoint {ENDPOINT} status available lastHeartbeat {}", now(world));
    assert_eq!(world.ask(&format!("HSET worker:chromium:{name} {fields}")), 4);
    assert_eq!(world.ask(&format!("HSET cluster:active_connections chromium:{name} 0")), 1);
    assert_eq!(world.ask(&format!("HSET cluster:lifetime_connections chromium:{name} 0")), 1);
    assert_eq!(world.ask(&format!("EXPIRE worker:chromium:{name} 60")), 1);
}

/// A request for a worker that names no protocol.
fn wish(yard: &FleetHarness) -> LeaseParams {
    LeaseParams { offers: vec![offer("playwright")], ..yard.lease_params() }
}

/// An answer that lists names and values.
fn table(pairs: &Value) -> Vec<(String, String)> {
    let words: Vec<_> =
        pairs.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
    let mut table: Vec<_> = words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    table.sort();
    table
}

fn sorted(list: &Value) -> Vec<&str> {
    let mut names: Vec<_> = list.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

fn select(world: &World, concurrent: u32, lifetime: u32) -> Value {
    let keys = ["2", "cluster:active_connections", "cluster:lifetime_connections"];
    let (concurrent, lifetime, now) = (concurrent.to_string(), lifetime.to_string(), now(world).to_string());
    let sha = world.ask_words(&["SCRIPT", "LOAD", SELECTOR]);
    let mut words = vec!["EVALSHA", sha.as_str().unwrap()];
    words.extend(keys);
    words.extend(["chromium", &concurrent, &lifetime, &now]);
    world.ask_words(&words)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_registers_beats_serves_is_ordered_and_leaves() {
    let world = World::new().await;
    let yard = yard(&world);
    register(&world, "abc123");
    let hash = world.ask("HGETALL worker:chromium:abc123");
    let names: Vec<_> = table(&hash).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["browserType", "lastHeartbeat", "status", "wsEndpoint"]);
    assert_eq!(world.ask("HGET worker:chromium:abc123 status"), "available");
    assert_eq!(yard.reap().await.found[0].to_string(), "chromium:abc123");

    // It sends a heartbeat.
    assert_eq!(world.ask(&format!("HSET worker:chromium:abc123 lastHeartbeat {}", now(&world))), 0);
    assert_eq!(world.ask("EXPIRE worker:chromium:abc123 60"), 1);
    assert_eq!(world.ask("GET worker:cmd:chromium:abc123"), Value::Null);

    // A client connects, through our gateway, and leaves.
    let first = wish(&yard);
    assert_eq!(yard.lease_granted(&first).await.endpoint, ENDPOINT);
    assert_eq!(world.ask("HGETALL cluster:active_connections"), json!(["chromium:abc123", "1"]));
    assert_eq!(world.ask("HGET cluster:lifetime_connections chromium:abc123"), "1");
    assert!(yard.release(&first.session).await);
    assert_eq!(world.ask("HGET cluster:active_connections chromium:abc123"), "0");

    // It has had its maximum number of sessions.
    assert_eq!(world.ask("HSET cluster:lifetime_connections chromium:abc123 49"), 0);
    let last = wish(&yard);
    yard.lease_granted(&last).await;
    assert_eq!(world.ask("GET worker:cmd:chromium:abc123"), Value::Null);
    assert!(yard.release(&last.session).await);
    assert_eq!(world.ask("GET worker:cmd:chromium:abc123"), "shutdown");
    assert_eq!(world.ask("KEYS worker:cmd:*"), json!(["worker:cmd:chromium:abc123"]));
    assert!((1..=60).contains(&world.ask("TTL worker:cmd:chromium:abc123").as_i64().unwrap()));

    // So it leaves.
    assert_eq!(world.ask("HSET worker:chromium:abc123 status draining"), 0);
    assert_eq!(world.ask("DEL worker:chromium:abc123"), 1);
    assert_eq!(world.ask("HDEL cluster:active_connections chromium:abc123"), 1);
    assert_eq!(world.ask("HDEL cluster:lifetime_connections chromium:abc123"), 1);
    assert_eq!(world.ask("DEL worker:cmd:chromium:abc123"), 1);
    assert!(yard.members(None).await.is_empty());
    assert!(matches!(yard.lease(&wish(&yard)).await, Leased::Refused { .. }));
    yard.reap().await;
    assert_eq!(world.ask("DBSIZE"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_member_is_listed_chosen_counted_and_ordered_by_other_programs() {
    let world = World::new().await;
    let yard = yard(&world);
    let member = chromium("def456", 5, 50);
    yard.join_entry(&member).await;
    register(&world, "abc123");
    assert_eq!(sorted(&world.ask("KEYS worker:*:*")), ["worker:chromium:abc123", "worker:chromium:def456"]);
    assert_eq!(sorted(&world.ask("KEYS worker:chromium:*")).len(), 2);
    assert_eq!(world.ask("KEYS worker:firefox:*"), json!([]));
    assert_eq!(
        sorted(&world.ask("HKEYS cluster:active_connections")),
        ["chromium:abc123", "chromium:def456"]
    );

    // Their selector prefers ours, which has had a session.
    let (session, _) = yard.open().await;
    assert_eq!(select(&world, 5, 50), json!(member.endpoint));
    assert_eq!(world.ask("HGET cluster:lifetime_connections chromium:def456"), "2");
    assert_eq!(world.ask("HINCRBY cluster:active_connections chromium:def456 -1"), 1);
    assert_eq!(yard.counts(&member.id).await, (1, 2));
    yard.release(&session).await;
    // A late or repeated disconnect of theirs leaves no negative counter for long: we publish
    // counted values.
    assert_eq!(world.ask("HINCRBY cluster:active_connections chromium:def456 -1"), -1);
    yard.beat(&member).await;
    assert_eq!(world.ask("HGET cluster:active_connections chromium:def456"), "0");

    assert_eq!(world.ask("SET worker:cmd:chromium:def456 shutdown EX 60"), "OK");
    assert!(yard.beat(&member).await.drain);
    assert_eq!(world.ask("HGET worker:chromium:def456 status"), "available", "until it says so");
}

#[tokio::test(flavor = "multi_thread")]
async fn reapers_of_both_kinds_remove_what_is_dead() {
    let world = World::new().await;
    let yard = yard(&world);
    let member = chromium("ours", 5, 50);
    yard.join_entry(&member).await;
    for name in ["theirs", "both", "alive"] {
        register(&world, name);
    }
    yard.reap().await;
    let old = now(&world) - 100;
    world.ask(&format!("HSET worker:chromium:theirs lastHeartbeat {old}"));
    let (time, stale) = (now(&world).to_string(), "60");
    assert_eq!(world.ask_words(&["EVAL", REAPER, "0", &time, stale]), 1);
    world.ask(&format!("HSET worker:chromium:both lastHeartbeat {old}"));
    assert_eq!(yard.reap().await.workers[0].to_string(), "chromium:both");
    assert_eq!(sorted(&world.ask("KEYS worker:*:*")), ["worker:chromium:alive", "worker:chromium:ours"]);
    // No counter exists without a worker.
    for id in sorted(&world.ask("HKEYS cluster:active_connections")) {
        assert_eq!(world.ask(&format!("EXISTS worker:{id}")), 1, "{id}");
    }
    assert_eq!(yard.members(None).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_with_the_server_s_data_is_back_after_a_beat() {
    let world = World::new().await;
    let yard = yard(&world);
    let member = chromium("abc123", 5, 50);
    yard.join_entry(&member).await;
    for command in ["INFO memory", "MEMORY USAGE worker:chromium:abc123", "DBSIZE"] {
        assert!(!world.ask(command).is_null(), "{command}");
    }
    world
        .until("a snapshot", || {
            world.ask("INFO persistence").as_str().unwrap().contains("rdb_bgsave_in_progress:0")
        })
        .await;
    assert_eq!(world.ask("BGSAVE"), "Background saving started");
    world.ask("FLUSHALL");
    yard.beat(&member).await;
    let hash = table(&world.ask("HGETALL worker:chromium:abc123"));
    for name in ["browserType", "lastHeartbeat", "status", "wsEndpoint"] {
        assert!(hash.iter().any(|(field, _)| field == name), "{name} of {hash:?}");
    }
    assert_eq!(world.ask("HGETALL cluster:active_connections"), json!(["chromium:abc123", "0"]));
    assert_eq!(select(&world, 5, 50), json!(member.endpoint));
}
