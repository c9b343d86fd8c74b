//! Other programs on the same keys: consumers with a life cycle of their own, and keys that were damaged.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use tidemill_core::chain::JobLinks;
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead};
use tidemill_core::job::JobState;
use tidemill_core::settle::{Outcome, Settlement, decide_malformed};
use tidemill_core::store::{
    Cancelled, ClaimParams, Due, EnqueueParams, Enqueued, Finding, Inspect, Jobs, ListExpiredParams,
    ListJobsParams, NewJob, PromoteParams, Promoted, Queues, SettleParams, Severity, Verdict,
};
use tidemill_core::{DeadLetter, DeathReason, Error, Guarantee, JobId, Namespace, Queue, QueueName, Store};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::conformance::harness::{FleetHarness, order};
use tidemill_testkit::servers::Redis;

const STREAM: &str = "ns:stream:q";
const PAUSED: &str = "ns:stream:q:paused";
const GROUP: &str = "tidemill-workers";

/// An entry's id and fields.
type Entry = (String, Value);

#[tokio::test]
async fn queues_that_only_other_programs_fill_are_found_and_their_jobs_shown() {
    let stage = Stage::new().await;
    let envelope = |id: &str| format!(r#"{{"job_id":"{id}","task_type":"k","payload":1}}"#);
    stage.ask(&["XADD", "ns:stream:mail", "*", "data", &envelope("streamed")]).await;
    stage.ask(&["LPUSH", "ns:queue:a/b.c", &envelope("listed")]).await;
    stage.ask(&["XADD", "ns:workflow:order", "*", "data", "{}"]).await;
    stage.ask(&["XADD", "ns:workflow:order:eu", "*", "data", "{}"]).await;
    // Not queues: parts of queues, other namespaces, other types, names that are not valid.
    for stream in ["ns:stream:mail:dlq", "ns:workflow:order:dlq", "other:stream:x", "ns:stream:a b"] {
        stage.ask(&["XADD", stream, "*", "data", "{}"]).await;
    }
    stage.ask(&["SET", "ns:queue:text", "x"]).await;
    stage.ask(&["SADD", "ns:stream:set", "x"]).await;
    let id = |id: &str| JobId::new(id).unwrap();
    assert!(stage.store.list_queues().await.unwrap().is_empty());
    assert!(stage.store.search_job(&id("streamed")).await.unwrap().is_none());

    let found = stage.store.discover_queues().await.unwrap();
    let mut found: Vec<_> = found.iter().map(|queue| format!("{} {}", queue.name, queue.guarantee)).collect();
    found.sort();
    let expected = ["a/b.c at_most_once", "mail at_least_once", "workflow/order at_least_once"];
    assert_eq!(found, [&expected[..], &["workflow/order/eu at_least_once"]].concat());
    assert!(stage.store.discover_queues().await.unwrap().is_empty(), "they are registered");
    let listed = stage.store.list_queues().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.ready).collect::<Vec<_>>(), [1, 1, 1, 1]);

    for (job, queue) in [("streamed", "mail"), ("listed", "a/b.c")] {
        assert!(stage.store.get_job(&id(job)).await.unwrap().is_none(), "{job} is in no index");
        let info = stage.store.search_job(&id(job)).await.unwrap().unwrap();
        assert_eq!((info.state, info.queue.unwrap().name.as_str()), (JobState::Ready, queue));
        assert_eq!(info.data, envelope(job));
    }
    assert!(stage.store.search_job(&id("nowhere")).await.unwrap().is_none());
}

struct Stage {
    store: Arc<RedisStore>,
    connection: MultiplexedConnection,
    // Last, so that it outlives the connections to it.
    _redis: Redis,
}

impl Stage {
    async fn new() -> Self {
        let redis = Redis::start().unwrap();
        let options = RedisOptions::parse(&redis.url()).unwrap().namespace(Namespace::new("ns:").unwrap());
        let client = redis::Client::open(redis.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { store: Arc::new(RedisStore::connect(options).await.unwrap()), connection, _redis: redis }
    }

    fn scene(&self) -> QueueHarness {
        self.scene_on("q", Guarantee::AtLeastOnce)
    }

    fn scene_on(&self, name: &str, delivery: Guarantee) -> QueueHarness {
        QueueHarness::new(
            self.store.clone(),
            Queue { name: QueueName::new(name).unwrap(), guarantee: delivery },
        )
    }

    async fn try_ask(&self, command: &[&str]) -> Result<Value, RedisError> {
        let mut words = command.iter();
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.query_async(&mut self.connection.clone()).await
    }

    /// What the server answers, as text.
    async fn ask(&self, command: &[&str]) -> String {
        format!("{:?}", self.try_ask(command).await.unwrap())
    }

    /// The number that the server answers.
    async fn count(&self, command: &[&str]) -> i64 {
        let Value::Int(count) = self.try_ask(command).await.unwrap() else { panic!("{command:?}") };
        count
    }

    /// What `doctor` finds bad.
    async fn bad(&self) -> Vec<Finding> {
        let findings = self.store.checkup().await.unwrap().findings;
        findings.into_iter().filter(|finding| finding.severity == Severity::Bad).collect()
    }

    /// Reads one entry as another program in the same group, and returns its id.
    async fn read(&self) -> String {
        let _ = self.try_ask(&["XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM"]).await;
        let read = ["XREADGROUP", "GROUP", GROUP, "foreign:1:0", "COUNT", "1", "STREAMS", STREAM, ">"];
        let streams = self.try_ask(&read).await.unwrap();
        let [(_, entries)] = redis::from_redis_value::<[(String, Vec<Entry>); 1]>(streams).unwrap();
        entries[0].0.clone()
    }

    async fn acknowledge(&self, entry: &str) {
        assert_eq!(self.count(&["XACK", STREAM, GROUP, entry]).await, 1);
    }

    /// The documented life cycle of another consumer.
    async fn consume(&self) {
        let entry = self.read().await;
        self.acknowledge(&entry).await;
        assert_eq!(self.count(&["XDEL", STREAM, &entry]).await, 1);
    }

    /// Entries that another consumer has read and acknowledged, and not deleted.
    async fn leave_acknowledged(&self, stream: &str, count: usize) {
        let script = "for number = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'data', number) end
            redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[2], 0)
            local read = {'GROUP', ARGV[2], 'foreign:1:0', 'COUNT', ARGV[1], 'STREAMS', KEYS[1], '>'}
            for _, entry in ipairs(redis.call('XREADGROUP', unpack(read))[1][2]) do
                redis.call('XACK', KEYS[1], ARGV[2], entry[1])
            end";
        self.ask(&["EVAL", script, "1", stream, &count.to_string(), GROUP]).await;
        assert_eq!(self.count(&["XLEN", stream]).await, count as i64);
    }

    async fn prune(&self, scene: &QueueHarness) {
        while self.store.prune(std::slice::from_ref(&scene.queue)).await.unwrap().more {}
    }

    async fn enqueue(&self, id: &str) -> Enqueued {
        let queue = Queue::at_least_once(QueueName::new("q").unwrap());
        let jobs = [job(id, &[])];
        self.store.enqueue(EnqueueParams { queue: &queue, jobs: &jobs }).await.unwrap()[0].clone()
    }
}

fn job(id: &str, after: &[&str]) -> NewJob {
    let envelope = format!(r#"{{"job_id":"{id}","task_type":"t","payload":1,"keep_result_ms":60000}}"#);
    let after = after.iter().map(|id| JobId::new(id).unwrap()).collect();
    NewJob {
        id: JobId::new(id).unwrap(),
        envelope: envelope.into(),
        due: Due::Now,
        tracked: true,
        generated_id: false,
        links: JobLinks { after, dedup: None },
    }
}

fn id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

#[tokio::test]
async fn what_another_consumer_has_acknowledged_and_not_deleted_is_done() {
    let (stage, queue) = (Stage::new().await, Queue::at_least_once(QueueName::new("q").unwrap()));
    let scene = stage.scene();
    for name in ["j1", "j2", "j3"] {
        stage.enqueue(name).await;
    }
    for _ in 0..2 {
        let entry = stage.read().await;
        stage.acknowledge(&entry).await;
    }
    scene.assert_counts([1, 0, 0, 0]).await;
    assert_eq!(scene.list(JobState::Ready, 10).await.len(), 1);
    assert_eq!((scene.state(&id("j1")).await, scene.state(&id("j3")).await), (None, Some(JobState::Ready)));
    assert_eq!(stage.enqueue("j2").await, Enqueued::Created, "its id is free");
    scene.assert_counts([2, 0, 0, 0]).await;
    assert_eq!(stage.store.purge(&queue).await.unwrap(), 2);
    scene.assert_counts([0, 0, 0, 0]).await;
}

#[tokio::test]
async fn what_was_acknowledged_and_not_deleted_is_pruned() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    for number in 0..300 {
        stage.ask(&["XADD", STREAM, "*", "data", &format!("foreign {number}")]).await;
    }
    stage.enqueue("j1").await;
    stage.enqueue("j2").await;
    for _ in 0..300 {
        let entry = stage.read().await;
        stage.acknowledge(&entry).await;
    }
    let (held, done) = (stage.read().await, stage.read().await);
    stage.acknowledge(&done).await;
    stage.enqueue("j3").await;
    stage.prune(&scene).await;
    scene.assert_counts([1, 0, 1, 0]).await;
    assert_eq!(stage.count(&["XLEN", STREAM]).await, 2, "what is held and what is ready");
    assert_eq!(stage.count(&["HLEN", "ns:jobs"]).await, 2);
    assert!(stage.ask(&["XRANGE", STREAM, &held, &held]).await.contains("j1"));
    // Another group has not read them yet.
    stage.ask(&["XGROUP", "CREATE", STREAM, "audit", "0"]).await;
    stage.acknowledge(&held).await;
    stage.prune(&scene).await;
    assert_eq!(stage.count(&["XLEN", STREAM]).await, 2);
}

#[tokio::test]
async fn more_acknowledged_entries_than_one_call_deletes_are_pruned_by_several() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    stage.leave_acknowledged(STREAM, 15_000).await;
    stage.enqueue("j1").await;
    let first = stage.store.prune(std::slice::from_ref(&scene.queue)).await.unwrap();
    assert!(first.more && (10_000..15_000).contains(&first.leftovers), "{first:?}");
    stage.prune(&scene).await;
    assert_eq!(stage.count(&["XLEN", STREAM]).await, 1);
    scene.assert_counts([1, 0, 0, 0]).await;
}

#[tokio::test]
async fn many_streams_are_pruned_in_turn() {
    let stage = Stage::new().await;
    let names: Vec<String> = (0..40).map(|number| format!("q{number}")).collect();
    let queues: Vec<Queue> =
        names.iter().map(|name| Queue::at_least_once(QueueName::new(name).unwrap())).collect();
    for name in &names {
        stage.leave_acknowledged(&format!("ns:stream:{name}"), 1).await;
    }
    let mut pruned = Vec::new();
    for _ in 0..4 {
        pruned.push(stage.store.prune(&queues).await.unwrap().leftovers);
    }
    // One call is cheap, and all of them leave no queue out.
    assert_eq!(pruned, [16, 16, 8, 0]);
    for name in &names {
        assert_eq!(stage.count(&["XLEN", &format!("ns:stream:{name}")]).await, 0, "{name}");
    }
}

#[tokio::test]
async fn the_id_of_a_job_that_another_consumer_has_done_is_free() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    assert_eq!(stage.enqueue("j1").await, Enqueued::Created);
    assert_eq!(stage.enqueue("j1").await, Enqueued::Exists);
    stage.consume().await;
    assert_eq!(stage.enqueue("j1").await, Enqueued::Created);
    stage.consume().await;
    assert_eq!(stage.store.cancel(&id("j1")).await.unwrap(), Cancelled::NotFound);
    assert_eq!(stage.count(&["HLEN", "ns:jobs"]).await, 0);
    stage.enqueue("j1").await;
    stage.consume().await;
    assert_eq!(scene.state(&id("j1")).await, None);
    assert_eq!(stage.count(&["HLEN", "ns:jobs"]).await, 0);
}

#[tokio::test]
async fn maintenance_forgets_jobs_that_other_programs_have_taken_away() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    for number in 0..250 {
        stage.enqueue(&format!("j{number}")).await;
    }
    stage.enqueue("kept").await;
    for _ in 0..250 {
        stage.consume().await;
    }
    stage.ask(&["HSET", "ns:jobs", "damaged", "no place"]).await;
    // One damaged key is no reason to leave the rest.
    stage.ask(&["SET", "ns:stream:other", "x"]).await;
    stage.ask(&["HSET", "ns:jobs", "elsewhere", "s other 1-1"]).await;
    stage.prune(&scene).await;
    let left = stage.ask(&["HKEYS", "ns:jobs"]).await;
    assert!(left.contains("kept") && left.contains("elsewhere"), "{left}");
    assert_eq!(stage.count(&["HLEN", "ns:jobs"]).await, 2);
}

#[tokio::test]
async fn who_waits_for_a_job_that_another_consumer_has_taken_is_told_so() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    stage.enqueue("first").await;
    let queue = scene.queue.clone();
    let jobs = [job("second", &["first"])];
    stage.store.enqueue(EnqueueParams { queue: &queue, jobs: &jobs }).await.unwrap();
    stage.consume().await;
    stage.prune(&scene).await;
    let claimed = scene.claim_one().await;
    assert_eq!(claimed.lease.job, id("second"));
    assert_eq!(claimed.body.unwrap().blockers().unwrap()[0].state, JobState::Cancelled);
}

#[tokio::test]
async fn a_paused_queue_whose_position_was_lost_shows_it_and_is_resumed() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    let damages: [&[&str]; 3] = [&["DEL", PAUSED], &["SET", PAUSED, "x"], &["SET", PAUSED, ""]];
    for damage in damages {
        stage.enqueue("running").await;
        let running = scene.claim_one().await;
        stage.enqueue("waiting").await;
        stage.store.pause(&scene.queue).await.unwrap();
        stage.ask(damage).await;
        assert!(scene.counts().await.paused, "{damage:?}");
        scene.assert_counts([1, 0, 1, 0]).await;
        stage.prune(&scene).await;
        stage.store.resume(&scene.queue).await.unwrap();
        assert!(!scene.counts().await.paused);
        let waiting = scene.claim_one().await;
        assert_eq!(waiting.lease.job, id("waiting"), "what is running is not given out again");
        for claimed in [running, waiting] {
            scene.settle(&claimed, Outcome::Done("1".into())).await;
        }
        scene.assert_counts([0; 4]).await;
        stage.ask(&["DEL", "ns:job:running", "ns:job:waiting"]).await;
    }
}

#[tokio::test]
async fn a_key_left_from_a_pause_keeps_no_queue_from_being_paused() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    stage.ask(&["SET", PAUSED, "0-0"]).await;
    stage.enqueue("waiting").await;
    assert!(!scene.counts().await.paused);
    stage.store.pause(&scene.queue).await.unwrap();
    assert!(scene.counts().await.paused);
    scene.claim_nothing().await;
    stage.store.resume(&scene.queue).await.unwrap();
    scene.claim_one().await;
}

#[tokio::test]
async fn a_due_time_without_end_and_damaged_keys_stop_no_other_promotion() {
    let stage = Stage::new().await;
    let sound = stage.scene();
    let queues = ["list", "ended", "typed", "q"].map(|name| Queue {
        name: QueueName::new(name).unwrap(),
        guarantee: if name == "list" { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce },
    });
    let envelope = |id: &str| format!(r#"{{"job_id":"{id}","task_type":"t"}}"#);
    stage.ask(&["SET", "ns:queue:list", "x"]).await;
    stage.ask(&["ZADD", "ns:queue:list:scheduled", "1", &envelope("a")]).await;
    stage.ask(&["ZADD", "ns:stream:ended:scheduled", "+inf", &envelope("b")]).await;
    stage.ask(&["SET", "ns:stream:typed:scheduled", "x"]).await;
    stage.ask(&["ZADD", "ns:timers", "+inf", "no alarm"]).await;
    stage.ask(&["ZADD", "ns:stream:q:scheduled", "1", &envelope("c")]).await;
    let promoted = stage.store.promote(PromoteParams { queues: &queues, limit: 100 }).await.unwrap();
    assert_eq!(promoted, Promoted { moved: 1, next: None });
    assert_eq!(sound.claim_one().await.lease.job, id("c"));
    assert_eq!(stage.count(&["ZCARD", "ns:queue:list:scheduled"]).await, 1, "nothing is lost");
}

#[tokio::test]
async fn errors_name_the_damaged_key_and_do_not_reach_other_queues() {
    let stage = Stage::new().await;
    let (sound, damaged) = (stage.scene(), stage.scene_on("bad", Guarantee::AtLeastOnce));
    stage.enqueue("j1").await;
    stage.store.register(std::slice::from_ref(&damaged.queue)).await.unwrap();
    stage.ask(&["SET", "ns:stream:bad", "x"]).await;
    stage.ask(&["SET", "ns:stream:bad:scheduled", "x"]).await;
    let named = |error: Error, key: &str| {
        let text = error.to_string();
        assert!(text.contains(&format!("`{key}` holds a string instead of a")), "{text}");
    };
    let claim = ClaimParams::now(&damaged.queue, &damaged.worker, damaged.lease, 1);
    named(stage.store.claim(claim).await.unwrap_err(), "ns:stream:bad");
    let wait = std::time::Duration::from_millis(10);
    let claim = ClaimParams { wait, ..ClaimParams::now(&damaged.queue, &damaged.worker, damaged.lease, 1) };
    named(stage.store.claim(claim).await.unwrap_err(), "ns:stream:bad");
    let jobs = [job("j2", &[])];
    let enqueue = EnqueueParams { queue: &damaged.queue, jobs: &jobs };
    named(stage.store.enqueue(enqueue).await.unwrap_err(), "ns:stream:bad");
    let list = ListJobsParams { queue: &damaged.queue, state: JobState::Scheduled, cursor: None, limit: 10 };
    named(stage.store.list_jobs(list).await.unwrap_err(), "ns:stream:bad:scheduled");
    // What is done for all queues is done for the others.
    assert!(stage.store.list_expired(expired(&damaged)).await.unwrap().leases.is_empty());
    stage.store.prune(&[damaged.queue.clone(), sound.queue.clone()]).await.unwrap();
    sound.assert_counts([1, 0, 0, 0]).await;
    assert_eq!(damaged.counts().await.problems.len(), 2);
}

fn expired(scene: &QueueHarness) -> ListExpiredParams<'_> {
    ListExpiredParams {
        queues: std::slice::from_ref(&scene.queue),
        lease: scene.lease,
        cursor: None,
        limit: 10,
    }
}

#[tokio::test]
async fn damaged_keys_are_listed_and_renamed() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    stage.enqueue("j1").await;
    stage.store.pause(&scene.queue).await.unwrap();
    stage.ask(&["DEL", PAUSED]).await;
    let damaged = ["ns:stream:q:scheduled", "ns:stream:q:leases", "ns:errands", "ns:timers"];
    for key in damaged {
        stage.ask(&["DEL", key]).await;
        stage.ask(&["SET", key, "precious"]).await;
    }
    let findings = format!("{:?}", stage.bad().await);
    for key in damaged.into_iter().chain([PAUSED]) {
        assert!(findings.contains(&format!("`{key}`")), "{key} in {findings}");
    }
    assert_eq!(stage.store.fix().await.unwrap().len(), 5);
    assert!(stage.bad().await.is_empty(), "{:?}", stage.bad().await);
    let aside = stage.ask(&["KEYS", "ns:stream:q:leases:damaged-*"]).await;
    assert!(aside.contains("damaged-"), "{aside}");
    assert!(stage.store.fix().await.unwrap().is_empty());
    stage.store.resume(&scene.queue).await.unwrap();
    assert_eq!(scene.claim_one().await.lease.job, id("j1"));
}

#[tokio::test]
async fn damaged_keys_of_runs_are_listed_and_left_alone() {
    let stage = Stage::new().await;
    let scene = QueueHarness::new(stage.store.clone(), order().queue);
    let run = scene.start_run(order()).await;
    let keys =
        ["instances-", "events-", "seen-", "timers-", "effects:"].map(|family| format!("ns:{family}{run}"));
    for key in &keys {
        stage.ask(&["DEL", key]).await;
        // None of them is a set.
        stage.ask(&["SADD", key, "precious"]).await;
    }
    stage.ask(&["DEL", "ns:runs-ended:order"]).await;
    stage.ask(&["SET", "ns:runs-ended:order", "precious"]).await;
    let findings = format!("{:?}", stage.bad().await);
    for key in keys.iter().map(String::as_str).chain(["ns:runs-ended:order"]) {
        assert!(findings.contains(&format!("`{key}` holds a ")), "{key} in {findings}");
    }
    assert!(findings.contains("restore it from a backup"), "{findings}");
    // An index can be made anew, a run cannot.
    let fixed = stage.store.fix().await.unwrap();
    assert_eq!(fixed.len(), 1, "{fixed:?}");
    assert_eq!(stage.bad().await.len(), keys.len());
    for key in &keys {
        assert_eq!(stage.count(&["SCARD", key]).await, 1, "{key}");
    }
}

#[tokio::test]
async fn damaged_keys_of_the_fleet_are_listed_and_made_anew() {
    let stage = Stage::new().await;
    let yard = FleetHarness::new(stage.store.clone());
    let (member, wish) = (yard.join("one", 1, 0).await, yard.lease_params());
    yard.lease_granted(&wish).await;
    let session = format!("ns:fleet:session:{}", wish.session);
    let own = [format!("ns:worker:{member}"), format!("ns:fleet:held:{member}"), session];
    let shared = ["ns:fleet:members", "ns:fleet:counts", "ns:cluster:active_connections"].map(str::to_owned);
    for key in &own {
        stage.ask(&["DEL", key]).await;
        stage.ask(&["SET", key, "precious"]).await;
    }
    let findings = format!("{:?}", stage.bad().await);
    for key in &own {
        assert!(findings.contains(&format!("`{key}` holds a string")), "{key} in {findings}");
    }
    for key in &shared {
        stage.ask(&["DEL", key]).await;
        stage.ask(&["SET", key, "precious"]).await;
    }
    let findings = format!("{:?}", stage.bad().await);
    for key in &shared {
        assert!(findings.contains(&format!("`{key}` holds a string")), "{key} in {findings}");
    }
    while !stage.store.fix().await.unwrap().is_empty() {}
    assert!(stage.bad().await.is_empty(), "{:?}", stage.bad().await);
    yard.join("two", 1, 0).await;
}

#[tokio::test]
async fn jobs_that_are_never_due_are_named() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    stage.store.register(std::slice::from_ref(&scene.queue)).await.unwrap();
    assert!(stage.bad().await.is_empty());
    stage.ask(&["ZADD", "ns:stream:q:scheduled", "+inf", r#"{"job_id":"endless","task_type":"t"}"#]).await;
    stage
        .ask(&["ZADD", "ns:stream:q:scheduled", "4102444800000", r#"{"job_id":"later","task_type":"t"}"#])
        .await;
    stage.ask(&["ZADD", "ns:timers", "+inf", "r1 1 a"]).await;
    let findings = format!("{:?}", stage.bad().await);
    for said in [
        "`ns:stream:q:scheduled` has 1 entries that are never due",
        "endless",
        "`ns:timers` has 1 entries",
        "r1 1 a",
    ] {
        assert!(findings.contains(said), "{said} in {findings}");
    }
    assert!(!findings.contains("later"), "{findings}");
    // When they should be due nobody knows.
    assert!(stage.store.fix().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_list_in_use_is_not_damaged() {
    let stage = Stage::new().await;
    let scene = stage.scene_on("list", Guarantee::AtMostOnce);
    scene.enqueue_many(3).await;
    scene.claim(2).await;
    // What a pop of another worker has left, whose answer was lost.
    stage.ask(&["ZADD", "ns:queue:list:takers", "4102444800000", "host:1:0:7"]).await;
    stage.ask(&["RPUSH", "ns:queue:list:taken:host:1:0:7", r#"{"job_id":"popped","task_type":"t"}"#]).await;
    assert!(stage.bad().await.is_empty(), "{:?}", stage.bad().await);
}

#[tokio::test]
async fn an_entry_without_data_is_buried_with_all_its_fields() {
    let stage = Stage::new().await;
    let scene = stage.scene();
    stage.ask(&["XADD", STREAM, "*", "first", "1", "second", "2"]).await;
    let claimed = scene.claim_one().await;
    let (raw, error) = claimed.body.as_ref().unwrap_err();
    let change = decide_malformed(&claimed.lease, raw, error, stage.store.clock().now());
    let settlement = Settlement { lease: claimed.lease.clone(), change };
    assert_eq!(stage.store.settle(SettleParams::current(&[settlement])).await.unwrap(), [Verdict::Accepted]);
    let letter = scene.letter(&claimed.lease.job).await;
    let letter: serde_json::Value = serde_json::from_slice(&letter.bytes).unwrap();
    assert_eq!(letter["raw"], r#"[["first","1"],["second","2"]]"#);
}

#[tokio::test]
async fn letters_that_cannot_be_read_are_listed_shown_and_dropped() {
    let stage = Stage::new().await;
    for (delivery, dlq) in
        [(Guarantee::AtLeastOnce, "ns:stream:q:dlq"), (Guarantee::AtMostOnce, "ns:queue:q:dlq")]
    {
        let scene = stage.scene_on("q", delivery);
        stage.store.register(std::slice::from_ref(&scene.queue)).await.unwrap();
        stage.ask(&["XADD", dlq, "*", "data", "no letter"]).await;
        stage.ask(&["XADD", dlq, "*", "other", "field"]).await;
        stage.ask(&["XADD", dlq, "*", "data", r#"{"job_id":"a","task_type":"t"}"#]).await;
        let listed = scene.list(JobState::Dead, 10).await;
        assert_eq!(listed.len(), 3);
        let shown = scene.get(&listed[0].job).await.unwrap();
        assert_eq!((shown.state, &shown.data[..]), (JobState::Dead, &b"no letter"[..]));
        assert_eq!(DeadLetter::from_stored(&shown).reason, DeathReason::Unreadable);
        let one = DeadLetterFilter { jobs: vec![listed[0].job.clone()], ..DeadLetterFilter::default() };
        assert_eq!(drop_dead(&*stage.store, &scene.queue, &one).await.unwrap(), 1);
        let others = DeadLetterFilter { reason: Some("unreadable".into()), ..DeadLetterFilter::default() };
        assert_eq!(drop_dead(&*stage.store, &scene.queue, &others).await.unwrap(), 1);
        assert_eq!(scene.list(JobState::Dead, 10).await.len(), 1, "the one that can be read");
        assert_eq!(drop_dead(&*stage.store, &scene.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
    }
}
