//! The fleet on Redis: what other programs write and read, keys that must expire, a server that is full, and damage.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::{Capacity, Offer, WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{
    AttachParams, Attached, LeaseParams, Leased, ListSessionsParams, Reaped, WaitParams, WorkerEntry,
};
use tidemill_core::{Error, Namespace, Store};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::SHORT;
use tidemill_testkit::conformance::harness::{FleetHarness, chromium, offer, until};
use tidemill_testkit::servers::Redis;

/// Long enough for a busy machine to ask meanwhile.
const GRACE: Duration = Duration::from_secs(3);

/// A store without a namespace, and a gateway on it. Keys are literally those of other programs.
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

    /// Sends a command as it is printed.
    fn ask(&self, command: &str) -> String {
        self.redis.command(&command.split_whitespace().collect::<Vec<_>>()).unwrap()
    }

    fn seconds(&self) -> i64 {
        self.store.clock().now().0 / 1000
    }

    /// What a worker of another program does when it starts.
    fn register(&self, name: &str) -> WorkerKey {
        let (worker, now) = (format!("worker:chromium:{name}"), self.seconds());
        let endpoint = format!("ws://worker:3131/playwright/chromium/{name}");
        self.ask(&format!(
            "HSET {worker} browserType chromium wsEndpoint {endpoint} status available lastHeartbeat {now}"
        ));
        self.ask(&format!("HSET cluster:active_connections chromium:{name} 0"));
        self.ask(&format!("HSET cluster:lifetime_connections chromium:{name} 0"));
        self.ask(&format!("EXPIRE {worker} 60"));
        format!("chromium:{name}").parse().unwrap()
    }

    /// A wish for a member of another program.
    fn wish(&self) -> LeaseParams {
        LeaseParams { offers: vec![Offer::unspecified()], ..self.yard.lease_params() }
    }

    /// Which member a new session gets. It is ended at once.
    async fn given(&self) -> Option<WorkerKey> {
        let wish = self.wish();
        let Leased::Granted(grant) = self.yard.lease(&wish).await else { return None };
        assert!(self.yard.release(&wish.session).await);
        Some(grant.worker)
    }
}

#[tokio::test]
async fn a_worker_of_another_program_is_found_and_given_out() {
    let stage = Stage::new().await;
    let id = stage.register("abc123");
    assert_eq!(stage.yard.reap().await.found, from_ref(&id));
    assert_eq!(stage.yard.reap().await, Reaped::default(), "it is found once");
    let wish = stage.wish();
    let grant = stage.yard.lease_granted(&wish).await;
    assert_eq!((&grant.worker, grant.offer), (&id, Offer::unspecified()));
    assert_eq!(grant.endpoint, "ws://worker:3131/playwright/chromium/abc123");
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:abc123"), "1");
    assert_eq!(stage.ask("HGET cluster:lifetime_connections chromium:abc123"), "1");
    stage.yard.release(&wish.session).await;
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:abc123"), "0");
    let info = stage.yard.member(&id).await.unwrap();
    assert_eq!(
        (info.worker.capacity, info.is_fresh, info.lifetime),
        (WorkerDefaults::default().capacity, true, 1)
    );
    assert_eq!(stage.yard.members(None).await.len(), 1);
}

#[tokio::test]
async fn what_such_a_worker_says_later_counts_at_once() {
    let stage = Stage::new().await;
    let id = stage.register("a");
    stage.yard.reap().await;
    let (old, now) = (stage.seconds() - 120, stage.seconds());
    for (takes, gives) in [
        ("HSET worker:chromium:a status draining".to_owned(), "HSET worker:chromium:a status available"),
        (
            format!("HSET worker:chromium:a lastHeartbeat {old}"),
            &*format!("HSET worker:chromium:a lastHeartbeat {now}"),
        ),
        ("SET worker:cmd:chromium:a shutdown EX 60".to_owned(), "DEL worker:cmd:chromium:a"),
    ] {
        stage.ask(&takes);
        assert_eq!(stage.given().await, None, "{takes}");
        stage.ask(gives);
        assert_eq!(stage.given().await, Some(id.clone()), "{gives}");
    }
    // It leaves.
    stage.ask("DEL worker:chromium:a");
    stage.ask("HDEL cluster:active_connections chromium:a");
    stage.ask("HDEL cluster:lifetime_connections chromium:a");
    assert_eq!(stage.given().await, None);
    assert!(stage.yard.members(None).await.is_empty());
    assert_eq!(stage.yard.reap().await.workers, [id]);
    assert_eq!(stage.ask("DBSIZE"), "0");
}

#[tokio::test]
async fn a_worker_of_another_program_has_the_room_and_the_time_that_are_standard() {
    let stage = Stage::new().await;
    let id = stage.register("a");
    let standard = WorkerDefaults {
        capacity: Capacity { concurrent: 2, lifetime: 3 },
        beat_timeout: Duration::from_secs(30),
    };
    stage.yard.fleet().reap(Some(standard)).await.unwrap();
    let wish = || LeaseParams { defaults: standard, ..stage.wish() };
    let (first, second) = (wish(), wish());
    stage.yard.lease_granted(&first).await;
    stage.yard.lease_granted(&second).await;
    assert!(matches!(stage.yard.lease(&wish()).await, Leased::Refused { workers: 1, .. }), "two at once");
    stage.yard.release(&first.session).await;
    let third = wish();
    stage.yard.lease_granted(&third).await;
    assert_eq!(stage.redis.command(&["EXISTS", "worker:cmd:chromium:a"]).unwrap(), "0");
    stage.yard.release(&second.session).await;
    assert_eq!(stage.ask("GET worker:cmd:chromium:a"), "shutdown", "three in its life");
    assert!((1..=60).contains(&stage.ask("TTL worker:cmd:chromium:a").parse::<i64>().unwrap()));
    stage.ask(&format!("HSET worker:chromium:a lastHeartbeat {}", stage.seconds() - 40));
    assert_eq!(stage.yard.fleet().reap(Some(standard)).await.unwrap().workers, [id]);
    assert_eq!(stage.ask("DBSIZE"), "0");
}

#[tokio::test]
async fn who_reaps_later_does_not_change_what_such_a_worker_may_do() {
    let stage = Stage::new().await;
    let id = stage.register("a");
    assert_eq!(stage.yard.fleet().reap(None).await.unwrap(), Reaped::default(), "it is not entered");
    assert_eq!(stage.ask("HLEN fleet:places"), "0");
    let standard = WorkerDefaults {
        capacity: Capacity { concurrent: 1, lifetime: 7 },
        beat_timeout: Duration::from_secs(30),
    };
    assert_eq!(stage.yard.fleet().reap(Some(standard)).await.unwrap().found, from_ref(&id));
    let place = "playwright 1 7 30000";
    for other in [None, Some(WorkerDefaults::default())] {
        assert_eq!(stage.yard.fleet().reap(other).await.unwrap(), Reaped::default());
        assert_eq!(stage.ask("HGET fleet:places chromium:a"), place);
        assert_eq!(stage.yard.member(&id).await.unwrap().worker.capacity, standard.capacity);
    }
    // Dead is dead, to whoever reaps: by the time that was standard when it was entered.
    stage.ask(&format!("HSET worker:chromium:a lastHeartbeat {}", stage.seconds() - 40));
    stage.ask("ZADD fleet:stale 0 chromium:a");
    assert_eq!(stage.yard.fleet().reap(None).await.unwrap().workers, [id]);
    assert_eq!(stage.ask("DBSIZE"), "0");
}

#[tokio::test]
async fn a_worker_that_beats_lives_and_one_that_does_not_is_removed_with_its_counts() {
    let stage = Stage::new().await;
    let (alive, dead) = (stage.register("alive"), stage.register("dead"));
    stage.ask("HSET cluster:lifetime_connections chromium:orphan 47");
    stage.ask("HSET cluster:active_connections chromium:orphan 3");
    stage.ask(&format!("HSET worker:chromium:dead lastHeartbeat {}", stage.seconds() - 100));
    let mut reaped = stage.yard.reap().await;
    reaped.workers.sort();
    assert_eq!(reaped.found, [alive]);
    assert_eq!(reaped.workers, [dead, "chromium:orphan".parse().unwrap()]);
    assert_eq!(stage.ask("HLEN cluster:lifetime_connections"), "1");
    assert_eq!(stage.ask("HLEN cluster:active_connections"), "1");
    assert_eq!(stage.ask("EXISTS worker:chromium:dead"), "0");
}

#[tokio::test]
async fn a_member_of_ours_looks_like_one_of_theirs() {
    let stage = Stage::new().await;
    let member = chromium("b", 5, 50);
    stage.yard.join_entry(&member).await;
    assert_eq!(stage.ask("HGET worker:chromium:b browserType"), "chromium");
    assert_eq!(stage.ask("HGET worker:chromium:b wsEndpoint"), member.endpoint);
    assert_eq!(stage.ask("HGET worker:chromium:b status"), "available");
    let beat: i64 = stage.ask("HGET worker:chromium:b lastHeartbeat").parse().unwrap();
    assert!((stage.seconds() - beat).abs() < 10, "in seconds");
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:b"), "0");
    stage.ask("SET worker:cmd:chromium:b shutdown EX 60");
    assert_eq!(
        stage.yard.lease(&stage.yard.lease_params()).await,
        Leased::Refused { waiting: 0, workers: 1 }
    );
    assert!(stage.yard.beat(&member).await.drain, "an order of another program is one");
    stage.ask("DEL worker:cmd:chromium:b");
    assert!(!stage.yard.beat(&member).await.drain);
    stage.yard.open().await;
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:b"), "1");
    stage.ask("HINCRBY cluster:active_connections chromium:b -7");
    stage.yard.beat(&member).await;
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:b"), "1", "it is the number of sessions");
    stage.yard.fleet().part(from_ref(&member.id)).await.unwrap();
    assert_eq!(stage.ask("DBSIZE"), "0");
}

/// Keys that outlive what they are about by themselves would stay for ever.
#[tokio::test]
async fn everything_about_one_member_session_or_place_has_a_ttl() {
    let stage = Stage::new().await;
    let a = stage.yard.join("a", 1, 1).await;
    let (session, _) = stage.yard.open().await;
    stage.yard.attach(&stage.yard.attach_params(&session, &a)).await;
    let waiting = stage.yard.waiting_lease_params();
    stage.yard.lease(&waiting).await;
    stage.yard.fleet().drain(&a).await.unwrap();
    for key in [
        "worker:chromium:a".to_owned(),
        "worker:cmd:chromium:a".to_owned(),
        format!("fleet:session:{session}"),
        "fleet:held:chromium:a".to_owned(),
        format!("fleet:ticket:{}", waiting.session),
        "fleet:line:chromium:cdp".to_owned(),
        "fleet:asked:chromium:cdp".to_owned(),
    ] {
        assert!(stage.ask(&format!("PTTL {key}")).parse::<i64>().unwrap() > 0, "{key}");
    }
    stage.yard.release(&waiting.session).await;
    stage.yard.fleet().part(from_ref(&a)).await.unwrap();
    assert_eq!(stage.ask("DBSIZE"), "0");
}

#[tokio::test]
async fn a_server_that_lost_everything_is_filled_again_and_no_limit_exceeded() {
    let stage = Stage::new().await;
    let member = chromium("a", 2, 0);
    stage.yard.join_entry(&member).await;
    let held = [stage.yard.open().await.0, stage.yard.open().await.0];
    stage.ask("FLUSHALL");
    assert_eq!(stage.yard.beat_after(&member, SHORT).await.active, 0);
    assert_eq!(stage.ask("HGET worker:chromium:a wsEndpoint"), member.endpoint);
    assert!(matches!(stage.yard.lease(&stage.yard.lease_params()).await, Leased::Refused { .. }), "not yet");
    for session in &held {
        assert_eq!(stage.yard.attach(&stage.yard.attach_params(session, &member.id)).await, Attached::Held);
    }
    tokio::time::sleep(SHORT * 2).await;
    assert!(
        matches!(stage.yard.lease(&stage.yard.lease_params()).await, Leased::Refused { .. }),
        "it is full"
    );
    assert_eq!(stage.yard.counts(&member.id).await, (2, 2));
    assert_eq!(stage.ask("HGET cluster:active_connections chromium:a"), "2");
}

#[tokio::test]
async fn a_server_that_comes_back_without_its_last_leases_gives_nobody_what_is_held() {
    let stage = Stage::new().await;
    let member = chromium("a", 1, 0);
    stage.yard.join_entry(&member).await;
    stage.ask("SAVE");
    let (session, _) = stage.yard.open().await;
    stage.redis.restart().unwrap();
    until("the server", || async { stage.yard.fleet().list_waiting().await.ok() }).await;
    assert!(stage.yard.sessions(None).await.is_empty(), "it has forgotten the lease, and nothing else");
    let full = async || {
        matches!(stage.yard.lease(&stage.yard.lease_params()).await, Leased::Refused { workers: 1, .. })
    };
    assert!(full().await, "the member has not beaten since");
    stage.yard.beat_after(&member, GRACE).await;
    assert!(full().await, "nobody has had time to say what they hold");
    assert_eq!(stage.yard.attach(&stage.yard.attach_params(&session, &member.id)).await, Attached::Held);
    tokio::time::sleep(GRACE).await;
    assert!(full().await, "it is held");
    assert!(stage.yard.release(&session).await);
    stage.yard.open().await;
}

#[tokio::test]
async fn a_hash_that_was_deleted_under_a_member_is_written_again() {
    let stage = Stage::new().await;
    let member = chromium("a", 2, 0);
    stage.yard.join_entry(&member).await;
    let (session, _) = stage.yard.open().await;
    stage.ask("DEL worker:chromium:a");
    assert!(matches!(stage.yard.lease(&stage.yard.lease_params()).await, Leased::Refused { workers: 0, .. }));
    assert_eq!(stage.yard.beat(&member).await.active, 1, "it keeps its session");
    assert!(stage.yard.release(&session).await);
    stage.ask("SET worker:chromium:a nonsense");
    assert_eq!(stage.yard.beat(&member).await.lifetime, 1);
    stage.yard.open().await;
}

#[tokio::test]
async fn garbage_is_passed_over_and_stops_nobody() {
    let stage = Stage::new().await;
    let now = stage.seconds();
    let half = format!("HSET worker:chromium:half lastHeartbeat {now}");
    let odd = format!(
        "HSET worker:chromium:odd browserType firefox wsEndpoint ws://x status available lastHeartbeat {now}"
    );
    let sleepy = format!(
        "HSET worker:chromium:sleepy browserType chromium wsEndpoint ws://x status asleep lastHeartbeat {now}"
    );
    let late = "HSET worker:chromium:late browserType chromium wsEndpoint ws://x status available lastHeartbeat soon";
    for command in [&*half, &odd, &sleepy, late, "SET worker:chromium:string what", "HSET worker:x:y a b"] {
        stage.ask(command);
    }
    for field in ["half", "odd", "sleepy", "late", "string"] {
        stage.ask(&format!("HSET cluster:lifetime_connections chromium:{field} 0"));
    }
    for field in ["", "chromium", ":", "cmd:chromium:a", "two words:x", "chromium:\u{fc}", "x:y"] {
        stage.redis.command(&["HSET", "cluster:lifetime_connections", field, "0"]).unwrap();
    }
    let good = stage.register("good");
    stage.ask("HSET cluster:lifetime_connections chromium:good many");
    let reaped = stage.yard.reap().await;
    assert_eq!((reaped.found, reaped.workers), (vec![good.clone()], Vec::new()));
    assert_eq!(stage.given().await, Some(good.clone()));
    assert_eq!(stage.yard.counts(&good).await, (0, 1), "what was no number counts as none");
    assert_eq!(stage.yard.members(None).await.len(), 1);
    // One that becomes garbage is given to nobody, and does not keep others from being reaped.
    stage.ask("HSET worker:chromium:good lastHeartbeat x");
    assert_eq!(stage.given().await, None);
    let other = stage.register("other");
    stage.yard.reap().await;
    assert_eq!(stage.given().await, Some(other));
}

#[tokio::test]
async fn a_key_of_the_wrong_type_is_an_error_and_nothing_is_half_done() {
    let stage = Stage::new().await;
    stage.ask("SET cluster:active_connections 7");
    let refused = stage.yard.fleet().join(&[chromium("a", 1, 0)]).await;
    assert!(matches!(refused, Err(Error::Unsuitable(_))), "{refused:?}");
    assert_eq!(stage.ask("DBSIZE"), "1");
}

#[tokio::test]
async fn a_full_server_gives_nothing_and_still_lets_members_live_and_sessions_end() {
    let stage = Stage::new().await;
    let member = chromium("a", 3, 0);
    stage.yard.join_entry(&member).await;
    let (first, second) = (stage.yard.open().await.0, stage.yard.open().await.0);
    stage.ask("CONFIG SET maxmemory 1");
    let fleet = stage.yard.fleet();
    assert!(matches!(fleet.lease(&stage.yard.lease_params()).await, Err(Error::Full(_))));
    assert!(matches!(fleet.lease(&stage.yard.waiting_lease_params()).await, Err(Error::Full(_))));
    assert!(matches!(fleet.join(&[chromium("b", 1, 0)]).await, Err(Error::Full(_))));
    assert_eq!(stage.yard.beat(&member).await.active, 2);
    assert_eq!(stage.yard.attach(&stage.yard.attach_params(&first, &member.id)).await, Attached::Held);
    assert!(fleet.close(&second).await.unwrap(), "nobody is connected to it");
    assert!(stage.yard.release(&first).await);
    assert!(fleet.drain(&member.id).await.unwrap());
    assert_eq!(stage.yard.reap().await, Reaped::default());
    fleet.part(from_ref(&member.id)).await.unwrap();
    assert_eq!(stage.ask("DBSIZE"), "0");
}

#[tokio::test]
async fn a_lease_among_a_thousand_members_is_one_command() {
    let stage = Stage::new().await;
    let members: Vec<_> = (0..1000).map(|n| chromium(&format!("m{n}"), 2, 50)).collect();
    stage.yard.fleet().join(&members).await.unwrap();
    stage.yard.open().await;
    let before = stage.store.commands();
    for _ in 0..300 {
        stage.yard.open().await;
    }
    assert_eq!(stage.store.commands() - before, 300);
    assert_eq!(stage.yard.fleet().list_sessions(everything()).await.unwrap().items.len(), 301);
}

fn everything() -> ListSessionsParams<'static> {
    ListSessionsParams { worker: None, cursor: None, limit: 1000 }
}

#[tokio::test]
async fn the_places_of_a_gateway_that_died_come_back_however_many() {
    let stage = Stage::new().await;
    let member = chromium("a", 250, 0);
    stage.yard.join_entry(&member).await;
    let dying = stage.yard.clone().with_lease(SHORT);
    let sessions: Vec<_> = (0..250).map(|_| dying.lease_params()).collect();
    for wish in &sessions {
        dying.lease_granted(wish).await;
    }
    until("a place", || async {
        matches!(stage.yard.lease(&stage.yard.lease_params()).await, Leased::Granted(_)).then_some(())
    })
    .await;
    until("all of them", || async {
        stage.yard.reap().await;
        (stage.ask("HGET cluster:active_connections chromium:a") == "1").then_some(())
    })
    .await;
    assert_eq!(stage.yard.counts(&member.id).await, (1, 251));
}

#[tokio::test]
async fn members_of_different_limits_are_compared_by_what_they_have_had() {
    let stage = Stage::new().await;
    for (name, limit) in [("brief", 3), ("long", 40), ("endless", 0)] {
        stage.yard.join_entry(&WorkerEntry { offer: offer(name), ..chromium(name, 9, limit) }).await;
    }
    let any = || LeaseParams {
        offers: ["brief", "long", "endless"].map(offer).to_vec(),
        ..stage.yard.lease_params()
    };
    let only = |name: &str| LeaseParams { offers: vec![offer(name)], ..stage.yard.lease_params() };
    stage.yard.lease_granted(&only("long")).await;
    assert_eq!(stage.yard.lease_granted(&any()).await.offer, offer("long"), "it has had one");
    for _ in 0..3 {
        stage.yard.lease_granted(&only("endless")).await;
    }
    assert_eq!(stage.yard.lease_granted(&any()).await.offer, offer("endless"));
}

#[tokio::test]
async fn what_is_too_long_is_refused() {
    let stage = Stage::new().await;
    let long = WorkerEntry { endpoint: "x".repeat(2049), ..chromium("a", 1, 0) };
    assert!(matches!(stage.yard.fleet().join(&[long]).await, Err(Error::Invalid(_))));
    let yard = &stage.yard;
    let nothing = LeaseParams { offers: Vec::new(), ..yard.lease_params() };
    assert!(matches!(yard.fleet().lease(&nothing).await, Err(Error::Invalid(_))));
    let (session, a) = (yard.lease_params().session, chromium("a", 1, 0).id);
    let talkative = AttachParams { detail: vec![b' '; 8193].into(), ..yard.attach_params(&session, &a) };
    assert!(matches!(yard.fleet().attach(&[talkative]).await, Err(Error::Invalid(_))));
    let eternal = Duration::MAX;
    yard.join_entry(&WorkerEntry { beat_timeout: eternal, ..chromium("a", 1, 0) }).await;
    yard.lease_granted(&LeaseParams {
        ttl: eternal,
        keep: eternal,
        wait: Some(WaitParams { max_waiting: 9, ttl: eternal }),
        ..yard.lease_params()
    })
    .await;
    assert_eq!(yard.reap().await, Reaped::default());
}
