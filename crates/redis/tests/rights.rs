//! Users with fewer rights than they need, or just enough.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::settle::Outcome;
use tidemill_core::store::{Cancelled, ClaimParams, SettleParams, Severity};
use tidemill_core::wake::Transport;
use tidemill_core::workflow::RunStatus;
use tidemill_core::{Error, Namespace, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore, RedisTransport, worker_rules};
use tidemill_testkit::conformance::harness::{completed, done, job, order};
use tidemill_testkit::conformance::{LONG, QueueHarness};
use tidemill_testkit::servers::{Redis, shared_redis};

use support::{PASSWORD, set_user, url_of};

const PATIENCE: Duration = Duration::from_secs(30);

/// A user of the shared server, in a namespace of the same name.
struct User {
    redis: &'static Redis,
    name: &'static str,
    namespace: Namespace,
}

impl User {
    fn new(name: &'static str, rules: &str) -> Self {
        let (redis, namespace) = (shared_redis(), Namespace::new(&format!("{name}:")).unwrap());
        set_user(redis, name, &rules.replace("NAMESPACE", namespace.as_str()));
        Self { redis, name, namespace }
    }

    fn options(&self) -> RedisOptions {
        RedisOptions::parse(&url_of(self.redis, self.name)).unwrap().namespace(self.namespace.clone())
    }

    async fn connect(&self) -> Result<Arc<RedisStore>, Error> {
        RedisStore::connect(self.options()).await.map(Arc::new)
    }

    /// Why the user is refused.
    async fn refusal(&self) -> String {
        denied(self.connect().await.map(drop))
    }

    /// Does what a refusal says.
    fn grant(&self, refusal: &str) {
        let line = &refusal[refusal.find("ACL SETUSER").unwrap()..];
        self.redis.command(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
    }

    async fn scene(&self) -> QueueHarness {
        QueueHarness::new(
            self.connect().await.unwrap(),
            Queue::at_least_once(QueueName::new("mail").unwrap()),
        )
    }
}

fn denied(answer: Result<(), Error>) -> String {
    let Err(Error::Denied(why)) = answer else { panic!("{answer:?} is no refusal") };
    assert!(!why.contains(PASSWORD), "{why}");
    why
}

async fn works(scene: &QueueHarness) {
    let id = scene.enqueue(job()).await;
    let claimed = scene.claim_with(1, 1, Duration::from_secs(5)).await.pop().unwrap();
    assert_eq!(claimed.lease.job, id);
    scene.settle(&claimed, done()).await;
}

#[tokio::test]
async fn a_user_without_dangerous_commands_works_and_doctor_says_what_is_slower() {
    let user = User::new("harmless", "~NAMESPACE* &NAMESPACE* +@all -@dangerous");
    let scene = user.scene().await;
    works(&scene).await;
    let checkup = scene.store.checkup().await.unwrap();
    assert!(checkup.server.contains("redis"), "{checkup:?}");
    let rights: Vec<_> = checkup.findings.iter().filter(|finding| finding.subject == "rights").collect();
    assert!(rights.iter().all(|finding| finding.severity == Severity::Warning), "{rights:?}");
    for (without, line) in [
        ("without INFO, eviction", "ACL SETUSER harmless +info"),
        ("without CLIENT UNBLOCK, waiting claims", "ACL SETUSER harmless +client|unblock"),
        ("without CONFIG GET, `doctor`", "ACL SETUSER harmless +config|get"),
    ] {
        let is_said = |message: &str| message.contains(without) && message.ends_with(line);
        assert!(rights.iter().any(|finding| is_said(&finding.message)), "{without}: {rights:?}");
    }
}

#[tokio::test]
async fn a_user_without_the_channel_is_refused_with_the_line_that_grants_it() {
    let user = User::new("deaf", "~NAMESPACE* +@all -@dangerous");
    let refusal = user.refusal().await;
    assert_eq!(
        refusal,
        "the Redis user \"deaf\" lacks rights (access to the channels deaf:*): ACL SETUSER deaf &deaf:*"
    );
    user.grant(&refusal);
    works(&user.scene().await).await;
}

#[tokio::test]
async fn a_user_without_the_keys_is_refused_with_the_line_that_grants_them() {
    let user = User::new("keyless", "~other:* &NAMESPACE* +@all");
    let refusal = user.refusal().await;
    assert!(refusal.ends_with("ACL SETUSER keyless ~keyless:*"), "{refusal}");
    user.grant(&refusal);
    works(&user.scene().await).await;
}

#[tokio::test]
async fn each_missing_command_is_named_and_nothing_is_written_by_asking() {
    for (number, missing) in [
        "xack",
        "hset",
        "zadd",
        "multi",
        "exec",
        "discard",
        "evalsha",
        "script",
        "time",
        "get",
        "xgroup|setid",
    ]
    .into_iter()
    .enumerate()
    {
        let name: &str = format!("lacking-{number}").leak();
        let user = User::new(name, &format!("~NAMESPACE* &NAMESPACE* +@all -{missing}"));
        let refusal = user.refusal().await;
        let command = if missing == "script" { "script|load" } else { missing };
        assert!(refusal.ends_with(&format!("ACL SETUSER {name} +{command}")), "{refusal}");
        assert!(refusal.contains(&format!("({})", command.to_uppercase().replace('|', " "))), "{refusal}");
        user.redis.command(&["ACL", "SETUSER", name, "+@all"]).unwrap();
        let keys = format!("{name}:*");
        let written = user.redis.command(&["EVAL", "return #redis.call('KEYS', ARGV[1])", "0", &keys]);
        assert_eq!(written.unwrap(), "0", "{missing}");
    }
}

#[tokio::test]
async fn a_refused_publish_leaves_no_half_change() {
    let user = User::new("muted", "~NAMESPACE* &NAMESPACE* +@all");
    let scene = user.scene().await;
    let tasks = QueueHarness::new(scene.store.clone(), order().queue);
    let run = tasks.start_run(order()).await;
    let task = tasks.task_of(&run).await;
    let (kept, cancelled) = (scene.enqueue(job()).await, scene.enqueue(job()).await);
    let claimed = scene.claim(2).await;
    // The right goes while the worker is at work.
    user.redis.command(&["ACL", "SETUSER", "muted", "resetchannels"]).unwrap();
    tasks.commit(&task, Vec::new(), completed("7")).await;
    let after = tasks.run(&run).await;
    assert_eq!((after.status, after.length), (RunStatus::Completed, tasks.journal(&run).await.len() as u64));
    assert_eq!(scene.store.cancel(&cancelled).await.unwrap(), Cancelled::Requested);
    for one in &claimed {
        let outcome = if one.lease.job == kept { done() } else { Outcome::Cancelled };
        scene.settle(one, outcome).await;
    }
    assert!(scene.get(&kept).await.is_none() && scene.get(&cancelled).await.is_none());
    scene.store.pause(&scene.queue).await.unwrap();
    scene.store.resume(&scene.queue).await.unwrap();
    works(&scene).await;
}

#[tokio::test]
async fn a_user_who_may_only_enqueue_does_that_and_breaks_nothing() {
    let without = "-xreadgroup -blmove -xack -xdel -hdel -xclaim";
    let user = User::new("producer", &format!("~NAMESPACE* &NAMESPACE* +@all -@dangerous {without}"));
    let scene = user.scene().await;
    let id = scene.enqueue(job()).await;
    let nothing = scene.store.claim(ClaimParams::now(&scene.queue, &scene.worker, LONG, 1)).await.map(drop);
    let why = denied(nothing);
    assert!(why.contains("xreadgroup"), "{why}");
    let why = denied(scene.store.cancel(&id).await.map(drop));
    assert!(why.contains("may not cancel") && why.contains("ACL SETUSER producer +"), "{why}");
    assert!(scene.get(&id).await.is_some());
    let checkup = scene.store.checkup().await.unwrap();
    assert!(
        checkup
            .findings
            .iter()
            .any(|finding| finding.subject == "rights" && finding.severity == Severity::Bad)
    );
}

#[tokio::test]
async fn a_right_that_goes_while_the_store_is_open_is_named_with_the_line_that_grants_it() {
    let user = User::new("demoted", "~NAMESPACE* &NAMESPACE* +@all -@dangerous");
    let scene = user.scene().await;
    let id = scene.enqueue(job()).await;
    // What was asked on connect is not believed for ever.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    user.redis.command(&["ACL", "SETUSER", "demoted", "-xreadgroup"]).unwrap();
    let claim = || scene.store.claim(ClaimParams::now(&scene.queue, &scene.worker, LONG, 1));
    let why = denied(claim().await.map(drop));
    assert!(
        why.contains("lacks rights (XREADGROUP)") && why.contains("ACL SETUSER demoted +xreadgroup"),
        "{why}"
    );
    user.redis.command(&["ACL", "SETUSER", "demoted", "+xreadgroup", "-xack"]).unwrap();
    let claimed = claim().await.unwrap().pop().unwrap();
    assert_eq!(claimed.lease.job, id);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let why = denied(
        scene.store.settle(SettleParams::current(&[scene.settlement(&claimed, done())])).await.map(drop),
    );
    assert!(why.contains("XACK") && why.contains("ACL SETUSER demoted +xack"), "{why}");
    // From now on the script is not even sent, until the right is there again.
    let why = denied(
        scene.store.settle(SettleParams::current(&[scene.settlement(&claimed, done())])).await.map(drop),
    );
    assert!(why.contains("may not finish (it lacks XACK): ACL SETUSER demoted +xack"), "{why}");
    user.redis.command(&["ACL", "SETUSER", "demoted", "+xack"]).unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    scene.settle(&claimed, done()).await;
}

#[tokio::test]
async fn a_worker_without_client_commands_claims_and_can_be_interrupted() {
    let user = User::new("clientless", "~NAMESPACE* &NAMESPACE* +@all -client");
    let scene = user.scene().await;
    works(&scene).await;
    let interrupt = Box::pin(tokio::time::sleep(Duration::from_millis(50)));
    let claim =
        ClaimParams { wait: PATIENCE, interrupt, ..ClaimParams::now(&scene.queue, &scene.worker, LONG, 1) };
    let taken = tokio::time::timeout(PATIENCE / 2, scene.store.claim(claim)).await;
    assert_eq!(taken.unwrap().unwrap().len(), 0);
}

#[tokio::test]
async fn wake_ups_need_their_channels_and_say_so() {
    let commands =
        "+eval +set +get +decr +incrby +pttl +expire +publish +subscribe +unsubscribe +ping +@transaction";
    let user = User::new("waker", &format!("~NAMESPACE* {commands}"));
    let why = denied(RedisTransport::connect(user.options()).await.map(drop));
    assert!(why.contains("--wake") && why.ends_with("ACL SETUSER waker &waker:*"), "{why}");
    user.grant(&why);
    let transport = RedisTransport::connect(user.options()).await.unwrap();
    assert!(transport.checkup().await.iter().all(|finding| finding.severity == Severity::Good));
}

#[test]
fn the_documented_rules_are_those_that_suffice() {
    let operations = include_str!("../../../docs/operations.md");
    let rules = worker_rules(&Namespace::default());
    let documented = operations.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(documented.contains(&rules), "docs/operations.md should have: {rules}");
}
