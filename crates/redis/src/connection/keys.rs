//! All keys and channels. `docs/redis-schema.md` documents each.

use tidemill_core::workflow::{RunId, WORKFLOW_QUEUE, WorkflowName};
use tidemill_core::{Guarantee, JobId, Namespace, Queue};

use crate::acl::AclSample;
use crate::options::RedisOptions;

/// The shard of the fleet: choosing a worker must be one script.
pub(crate) const FLEET_SHARD: u16 = 0;

/// Builds the keys of a store. With one shard they are the documented ones after the namespace.
/// With more, each begins with its shard's hash tag, so that related keys are on one server.
#[derive(Debug)]
pub(crate) struct Keys {
    namespace: Namespace,
    prefixes: Vec<String>,
    channel: String,
}

impl Keys {
    pub(crate) fn new(options: &RedisOptions) -> Self {
        let namespace = &options.namespace;
        let tagged = options.cluster || options.shards > 1;
        let prefix = |shard| if tagged { format!("{{{shard}}}{namespace}") } else { namespace.to_string() };
        Self {
            prefixes: (0..options.shards).map(prefix).collect(),
            channel: own_channel(namespace, options.database()),
            namespace: namespace.clone(),
        }
    }

    pub(crate) fn shards(&self) -> u16 {
        u16::try_from(self.prefixes.len()).unwrap_or(u16::MAX)
    }

    /// The shard of a job: that of its root, so that a chain, or a run with its jobs, is in one
    /// shard.
    pub(crate) fn shard_of(&self, job: &JobId) -> u16 {
        self.hash_shard(job.root())
    }

    /// The shard of a run.
    pub(crate) fn shard_of_run(&self, run: &RunId) -> u16 {
        self.hash_shard(run.root())
    }

    /// The shard of a deduplication key. Its chain may be in another.
    pub(crate) fn shard_of_key(&self, key: &str) -> u16 {
        self.hash_shard(key)
    }

    /// Hashes by FNV-1a, which every version computes identically.
    fn hash_shard(&self, name: &str) -> u16 {
        if self.prefixes.len() == 1 {
            return 0;
        }
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        u16::try_from(hash % self.prefixes.len() as u64).unwrap_or(0)
    }

    /// The prefix of every key of a shard.
    pub(crate) fn prefix(&self, shard: u16) -> &str {
        &self.prefixes[usize::from(shard)]
    }

    /// A key of this shard for slot computations.
    pub(crate) fn anchor_key(&self, shard: u16) -> String {
        self.jobs(shard)
    }

    /// The sample for checking permissions on this store's keys and channels.
    pub(crate) fn acl_sample(&self, shard: u16) -> AclSample {
        let is_tagged = self.prefix(shard) != self.namespace.as_str();
        AclSample {
            key: self.anchor_key(shard),
            key_rule: format!("~{}{}*", if is_tagged { "{*}" } else { "" }, escape_pattern(&self.namespace)),
            channel: self.channel.clone(),
            channel_rule: format!("&{}*", escape_pattern(&self.namespace)),
        }
    }

    /// Where workers claim jobs: `stream:{queue}`, `queue:{queue}` or, for tasks of runs,
    /// `workflow:{name}` with or without a route. Also in `lua/lib/run.lua`.
    pub(crate) fn target(&self, shard: u16, queue: &Queue) -> String {
        let (prefix, name) = (self.prefix(shard), queue.name.as_str());
        match (queue.guarantee, parse_workflow_queue(name)) {
            (Guarantee::AtMostOnce, _) => format!("{prefix}queue:{name}"),
            (Guarantee::AtLeastOnce, Some((workflow, None))) => format!("{prefix}workflow:{workflow}"),
            (Guarantee::AtLeastOnce, Some((workflow, Some(route)))) => {
                format!("{prefix}workflow:{workflow}:{route}")
            }
            (Guarantee::AtLeastOnce, None) => format!("{prefix}stream:{name}"),
        }
    }

    /// The beginning of a pattern that matches keys of this shard only.
    pub(crate) fn prefix_pattern(&self, shard: u16) -> String {
        let tag = self.prefix(shard).strip_suffix(self.namespace.as_str()).unwrap_or_default();
        format!("{tag}{}", escape_pattern(&self.namespace))
    }

    fn queue_part(&self, shard: u16, queue: &Queue, part: &str) -> String {
        let mut key = self.target(shard, queue);
        key.push(':');
        key.push_str(part);
        key
    }

    /// Every key that a queue may have, except its locks.
    pub(crate) fn queue_keys(&self, shard: u16, queue: &Queue) -> Vec<String> {
        let parts = QUEUE_KEY_SUFFIXES
            .iter()
            .filter(|part| **part != "lock")
            .map(|part| self.queue_part(shard, queue, part));
        [self.target(shard, queue), self.purged_list(shard, queue)].into_iter().chain(parts).collect()
    }

    /// Delayed jobs by due time.
    pub(crate) fn scheduled(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "scheduled")
    }

    /// Dead letters.
    pub(crate) fn dlq(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "dlq")
    }

    /// Scheduled jobs that a purge has set apart. Also in `lua/queues/purge.lua`.
    pub(crate) fn purged(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "purged")
    }

    /// List jobs that a purge has set apart. Also in `lua/queues/purge.lua`.
    pub(crate) fn purged_list(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "purged:ready")
    }

    /// Exists while the queue is paused; for a stream it has the group's position.
    pub(crate) fn paused(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "paused")
    }

    /// Blocked jobs by the time they were blocked: `JOB MARK`.
    pub(crate) fn blocked(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "blocked")
    }

    /// Chains whose running job has been cancelled.
    pub(crate) fn cancelled(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "cancelled")
    }

    /// Chains in a list whose next copies are dropped when popped, and how many.
    pub(crate) fn dropped(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "dropped")
    }

    /// The length of each worker's leases on a stream.
    pub(crate) fn leases(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "leases")
    }

    /// List jobs whose lock is, or was, held: id to `token worker envelope`.
    pub(crate) fn running(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "running")
    }

    /// Copies of popped jobs, until their worker has confirmed them.
    pub(crate) fn taken(&self, shard: u16, queue: &Queue, mark: &str) -> String {
        self.queue_part(shard, queue, &format!("taken:{mark}"))
    }

    /// Pops that have such copies, by when they expire.
    pub(crate) fn takers(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "takers")
    }

    /// Running list jobs without an index entry: until when that is known (ms), and the worker.
    pub(crate) fn untracked(&self, shard: u16, queue: &Queue) -> String {
        self.queue_part(shard, queue, "untracked")
    }

    /// The lock of the one runner of this job id.
    pub(crate) fn lock(&self, shard: u16, queue: &Queue, job: &JobId) -> String {
        self.queue_part(shard, queue, &format!("lock:{job}"))
    }

    /// The index: chain to the location of its job.
    pub(crate) fn jobs(&self, shard: u16) -> String {
        format!("{}jobs", self.prefix(shard))
    }

    /// The registered queues.
    pub(crate) fn queues(&self, shard: u16) -> String {
        format!("{}queues", self.prefix(shard))
    }

    /// The record of a closed chain, while it is kept. Any of its jobs has the same key.
    pub(crate) fn record(&self, shard: u16, job: &JobId) -> String {
        format!("{}job:{}", self.prefix(shard), job.chain())
    }

    /// The chains that one blocked job waits for, and their notices. The mark is the id of this
    /// wait.
    pub(crate) fn waits(&self, shard: u16, mark: &str) -> String {
        format!("{}waits:{mark}", self.prefix(shard))
    }

    /// The jobs that wait for chains of this shard: `CHAIN MARK POSITION QUEUE JOB`.
    pub(crate) fn waiters(&self, shard: u16) -> String {
        format!("{}waiters", self.prefix(shard))
    }

    /// Closed chains whose waiters are not all notified, and their notices.
    pub(crate) fn notices(&self, shard: u16) -> String {
        format!("{}notices", self.prefix(shard))
    }

    /// The outbox: work for another script, by when other processes may take it over.
    pub(crate) fn errands(&self, shard: u16) -> String {
        format!("{}errands", self.prefix(shard))
    }

    /// Chain to its deduplication key.
    pub(crate) fn keyed(&self, shard: u16) -> String {
        format!("{}keyed", self.prefix(shard))
    }

    /// Deduplication key to its chain.
    pub(crate) fn dedup_key(&self, shard: u16, key: &str) -> String {
        format!("{}key:{key}", self.prefix(shard))
    }

    /// Reserved deduplication keys, with the data to create their chains.
    pub(crate) fn reserved(&self, shard: u16) -> String {
        format!("{}reserved", self.prefix(shard))
    }

    /// The shared keys of a shard: the first keys of scripts that continue or end chains.
    pub(crate) fn shard_keys(&self, shard: u16) -> Vec<String> {
        vec![
            self.jobs(shard),
            self.waiters(shard),
            self.notices(shard),
            self.errands(shard),
            self.keyed(shard),
        ]
    }

    /// A run's state as JSON. `lua/lib/run.lua` builds the other keys of runs.
    pub(crate) fn instance(&self, shard: u16, run: &RunId) -> String {
        format!("{}instances-{run}", self.prefix(shard))
    }

    /// A run's journal.
    pub(crate) fn events(&self, shard: u16, run: &RunId) -> String {
        format!("{}events-{run}", self.prefix(shard))
    }

    /// The ids of events delivered to a run. Also in `lua/lib/run.lua`.
    pub(crate) fn seen(&self, shard: u16, run: &RunId) -> String {
        format!("{}seen-{run}", self.prefix(shard))
    }

    /// A run's own timers by due time: `SEQ LETTER`.
    pub(crate) fn run_timers(&self, shard: u16, run: &RunId) -> String {
        format!("{}timers-{run}", self.prefix(shard))
    }

    /// The timers of all runs by due time: `RUN SEQ LETTER`.
    pub(crate) fn timers(&self, shard: u16) -> String {
        format!("{}timers", self.prefix(shard))
    }

    /// Members of `timers` that were no timer, or belonged to a damaged run.
    pub(crate) fn damaged_timers(&self, shard: u16) -> String {
        format!("{}damaged-timers", self.prefix(shard))
    }

    /// Data staged for a commit or a start.
    pub(crate) fn staged(&self, shard: u16, mark: &str) -> String {
        format!("{}staged:{mark}", self.prefix(shard))
    }

    /// Runs by start time; all, or those of one type.
    pub(crate) fn runs(&self, shard: u16, workflow: Option<&WorkflowName>) -> String {
        let prefix = self.prefix(shard);
        workflow.map_or_else(|| format!("{prefix}runs"), |workflow| format!("{prefix}runs:{workflow}"))
    }

    /// Ended runs of one type by end time.
    pub(crate) fn ended_runs(&self, shard: u16, workflow: &str) -> String {
        format!("{}runs-ended:{workflow}", self.prefix(shard))
    }

    /// An idempotency key to its run. Also in `lua/runs/start_run.lua` and `lua/lib/run.lua`.
    pub(crate) fn run_key(&self, shard: u16, workflow: &WorkflowName, key: &str) -> String {
        format!("{}run-key:{workflow}:{key}", self.prefix(shard))
    }

    /// How many sessions each worker has ever had. All other keys of the fleet are in the same
    /// shard;
    /// `lua/lib/worker.lua` and `lua/lib/session.lua` build them.
    pub(crate) fn lifetime_connections(&self) -> String {
        format!("{}cluster:lifetime_connections", self.prefix(FLEET_SHARD))
    }

    /// Every key of a run.
    pub(crate) fn run_keys(&self, shard: u16, run: &str) -> Vec<String> {
        let prefix = self.prefix(shard);
        RUN_KEY_PREFIXES.iter().map(|family| format!("{prefix}{family}{run}")).collect()
    }

    /// The indexes of runs of a type: all runs, and ended runs.
    pub(crate) fn workflow_type_keys(&self, shard: u16, workflow: &str) -> Vec<String> {
        let prefix = self.prefix(shard);
        ["runs:", "runs-ended:"].iter().map(|family| format!("{prefix}{family}{workflow}")).collect()
    }

    /// The types that have ended runs.
    pub(crate) fn workflows(&self, shard: u16) -> String {
        format!("{}workflows", self.prefix(shard))
    }

    /// A key of the fleet by its name in scripts, such as `fleet:members`.
    pub(crate) fn fleet_key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix(FLEET_SHARD))
    }

    /// Every key of a worker of the fleet, `KIND:NAME`, that is indexed under this offer.
    pub(crate) fn worker_keys(&self, member: &str, offer: Option<&str>) -> Vec<String> {
        let own = ["worker:", "worker:cmd:", "fleet:held:"].map(|family| format!("{family}{member}"));
        let kind = member.split(':').next().unwrap_or_default();
        let shared = ["live", "leaving", "limits", "line", "asked"];
        let shared =
            offer.into_iter().flat_map(|offer| shared.map(|part| format!("fleet:{part}:{kind}:{offer}")));
        own.into_iter().chain(shared).map(|name| self.fleet_key(&name)).collect()
    }

    /// The receipt of an enqueue, or of a linked chain.
    pub(crate) fn receipt(&self, shard: u16, of: &str) -> String {
        format!("{}receipt:{of}", self.prefix(shard))
    }

    /// Settled claims of jobs that were never locked: `TOKEN JOB` by time.
    pub(crate) fn released(&self, shard: u16) -> String {
        format!("{}released", self.prefix(shard))
    }

    /// The channel of wake-ups.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }
}

/// Channels and keys of wake-ups. They belong to no shard: every server delivers a channel, and a
/// hint has one key.
#[derive(Debug)]
pub(crate) struct WakeKeys {
    namespace: Namespace,
    database: i64,
}

impl WakeKeys {
    pub(crate) fn new(namespace: Namespace, database: i64) -> Self {
        Self { namespace, database }
    }

    /// The sample for checking permissions on hints and channels.
    pub(crate) fn acl_sample(&self) -> AclSample {
        let all = escape_pattern(&self.namespace);
        AclSample {
            key: format!("{}hint:", self.namespace),
            key_rule: format!("~{all}*"),
            channel: self.sched(),
            channel_rule: format!("&{all}*"),
        }
    }

    /// The channel on which jobs are announced.
    pub(crate) fn sched(&self) -> String {
        format!("{}sched", self.namespace)
    }

    /// The channel of finished chains.
    pub(crate) fn chainc(&self) -> String {
        format!("{}chainc", self.namespace)
    }

    /// The channel of lost leases.
    pub(crate) fn owls(&self) -> String {
        format!("{}owls", self.namespace)
    }

    /// The channel of all other wake-ups.
    pub(crate) fn wake(&self) -> String {
        own_channel(&self.namespace, self.database)
    }

    /// The hint of a type: how many of its jobs are still unclaimed by a listener.
    pub(crate) fn type_hint(&self, type_name: &str) -> String {
        format!("{}hint:{type_name}", self.namespace)
    }

    /// A hint: how many listeners should still poll.
    pub(crate) fn hint(&self, hint: &crate::wake::Hint) -> String {
        format!("{}hint:{hint}", self.namespace)
    }
}

/// A pattern that matches this namespace only.
pub(crate) fn escape_pattern(namespace: &Namespace) -> String {
    let escape = |c: char| if "*?[]^\\".contains(c) { format!("\\{c}") } else { c.to_string() };
    namespace.as_str().chars().map(escape).collect()
}

/// The channel of Tidemill's own wake-ups. Redis delivers a message to subscribers of every
/// database, so the name contains the database unless it is the default one.
fn own_channel(namespace: &Namespace, database: i64) -> String {
    match database {
        0 => format!("{namespace}wake"),
        other => format!("{namespace}wake@{other}"),
    }
}

/// The workflow, and the route if any, of a queue of workflow tasks. A route named like a key
/// suffix would collide with the keys of another queue.
fn parse_workflow_queue(queue: &str) -> Option<(&str, Option<&str>)> {
    let mut parts = queue.strip_prefix(WORKFLOW_QUEUE)?.split('/');
    let (workflow, route) = (parts.next()?, parts.next());
    let is_sound = |part: &str| !part.is_empty();
    let is_route = route.is_none_or(|route| is_sound(route) && !QUEUE_KEY_SUFFIXES.contains(&route));
    (is_sound(workflow) && is_route && parts.next().is_none()).then_some((workflow, route))
}

/// Prefixes of the keys of a run.
pub(crate) const RUN_KEY_PREFIXES: [&str; 5] = ["instances-", "events-", "seen-", "timers-", "effects:"];

/// Suffixes of the keys of a queue.
pub(crate) const QUEUE_KEY_SUFFIXES: [&str; 13] = [
    "scheduled",
    "dlq",
    "paused",
    "blocked",
    "cancelled",
    "dropped",
    "leases",
    "running",
    "untracked",
    "lock",
    "taken",
    "takers",
    "purged",
];

/// Whether the queue has tasks of runs.
pub(crate) fn is_workflow_queue(queue: &Queue) -> bool {
    queue.name.as_str().starts_with(WORKFLOW_QUEUE)
}

/// The letter of a guarantee in scripts and in the index.
pub(crate) fn kind_letter(queue: &Queue) -> &'static str {
    match queue.guarantee {
        Guarantee::AtLeastOnce => "s",
        Guarantee::AtMostOnce => "l",
    }
}

/// The queue as a member of the set of queues.
pub(crate) fn queue_member(queue: &Queue) -> String {
    format!("{} {}", kind_letter(queue), queue.name)
}

#[cfg(test)]
mod tests {
    use tidemill_core::QueueName;

    use super::*;

    fn queue(name: &str, delivery: Guarantee) -> Queue {
        Queue { name: QueueName::new(name).unwrap(), guarantee: delivery }
    }

    #[test]
    fn are_literally_the_documented_ones_with_one_shard() {
        let namespace = Namespace::new("msaas:dev:").unwrap();
        let keys = Keys::new(&RedisOptions::parse("redis://h").unwrap().namespace(namespace));
        let (list, stream) =
            (queue("jobs.generic", Guarantee::AtMostOnce), queue("jobs.browser", Guarantee::AtLeastOnce));
        assert_eq!(keys.target(0, &list), "msaas:dev:queue:jobs.generic");
        assert_eq!(keys.scheduled(0, &list), "msaas:dev:queue:jobs.generic:scheduled");
        let job = JobId::new("j1").unwrap();
        assert_eq!(keys.lock(0, &list, &job), "msaas:dev:queue:jobs.generic:lock:j1");
        assert_eq!(keys.target(0, &stream), "msaas:dev:stream:jobs.browser");
        assert_eq!(keys.dlq(0, &stream), "msaas:dev:stream:jobs.browser:dlq");
    }

    #[test]
    fn of_workflow_tasks_are_literally_those_of_other_programs() {
        let keys =
            Keys::new(&RedisOptions::parse("redis://h").unwrap().namespace(Namespace::new("").unwrap()));
        for (name, key) in [
            ("workflow/order", "workflow:order"),
            ("workflow/order/eu-west", "workflow:order:eu-west"),
            ("workflow/order/dlq", "stream:workflow/order/dlq"),
            ("workflow/order/eu/west", "stream:workflow/order/eu/west"),
            ("workflow/", "stream:workflow/"),
        ] {
            assert_eq!(keys.target(0, &queue(name, Guarantee::AtLeastOnce)), key);
        }
        let order = queue("workflow/order", Guarantee::AtLeastOnce);
        assert_eq!(keys.scheduled(0, &order), "workflow:order:scheduled");
        assert_eq!(keys.target(0, &queue("workflow/order", Guarantee::AtMostOnce)), "queue:workflow/order");
        let run = RunId::new("run-123").unwrap();
        assert_eq!(
            (keys.instance(0, &run), keys.events(0, &run)),
            ("instances-run-123".into(), "events-run-123".into())
        );
    }

    #[test]
    fn of_wake_ups_are_literally_those_of_other_programs() {
        let keys = WakeKeys::new(Namespace::new("queuert:").unwrap(), 1);
        let hint = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
        assert_eq!(keys.hint(&hint), "queuert:hint:550e8400-e29b-41d4-a716-446655440000");
        assert_eq!(keys.type_hint("mail"), "queuert:hint:mail");
        assert_eq!(
            [keys.sched(), keys.chainc(), keys.owls()],
            ["queuert:sched", "queuert:chainc", "queuert:owls"]
        );
    }

    #[test]
    fn the_channel_says_which_database_it_is_about_unless_it_is_the_default_one() {
        let channel = |url| Keys::new(&RedisOptions::parse(url).unwrap()).channel().to_owned();
        assert_eq!(channel("redis://h"), "tidemill:wake");
        assert_eq!(channel("redis://h/0"), "tidemill:wake");
        assert_eq!(channel("redis://h/3"), "tidemill:wake@3");
        let keys = |database| WakeKeys::new(Namespace::default(), database).wake();
        assert_eq!([keys(0), keys(3)], ["tidemill:wake", "tidemill:wake@3"]);
    }

    #[test]
    fn begin_with_the_shard_s_tag_when_there_are_several() {
        let keys = Keys::new(&RedisOptions::parse("redis+cluster://h").unwrap());
        let job = JobId::new("j1").unwrap();
        assert!(keys.record(7, &job).starts_with("{7}tidemill:"));
        assert!((0..1000).map(|_| keys.shard_of(&JobId::generate())).all(|shard| shard < 8));
    }
}
