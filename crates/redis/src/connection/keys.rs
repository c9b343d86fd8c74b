//! Every key and channel, in one place. `docs/redis-schema.md` documents each.

use tidemill_core::wake::Hint;
use tidemill_core::workflow::{RunId, WORKFLOW_QUEUE, WorkflowName};
use tidemill_core::{Guarantee, JobId, Namespace, Queue};

use crate::acl::Sample;
use crate::options::Options;

/// Where the fleet is: choosing one of its members must be one step.
pub(crate) const FLEET_SHARD: u16 = 0;

/// Makes the keys of a store. With one shard they are literally the documented ones behind the namespace;
/// with more, each begins with its shard's hash tag, so that what belongs together is on one server.
#[derive(Debug)]
pub(crate) struct Keys {
    namespace: Namespace,
    prefixes: Vec<String>,
    channel: String,
}

impl Keys {
    pub(crate) fn new(options: &Options) -> Self {
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

    /// The shard of a job: that of its root, so that the steps of a chain, and a run with all it has, are in one.
    pub(crate) fn shard_of(&self, job: &JobId) -> u16 {
        self.shard_by(job.root())
    }

    /// The shard of a run.
    pub(crate) fn shard_of_run(&self, run: &RunId) -> u16 {
        self.shard_by(run.root())
    }

    /// The shard of a deduplication key. The chain that has it may be in another.
    pub(crate) fn shard_of_key(&self, key: &str) -> u16 {
        self.shard_by(key)
    }

    /// By a hash that every version computes alike (FNV-1a).
    fn shard_by(&self, name: &str) -> u16 {
        if self.prefixes.len() == 1 {
            return 0;
        }
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        u16::try_from(hash % self.prefixes.len() as u64).unwrap_or(0)
    }

    /// What every key of a shard begins with.
    pub(crate) fn prefix(&self, shard: u16) -> &str {
        &self.prefixes[usize::from(shard)]
    }

    /// A key that any slot computation about this shard can use.
    pub(crate) fn anchor(&self, shard: u16) -> String {
        self.jobs(shard)
    }

    /// What rights to this store's keys and channels are asked by, on the server of a shard.
    pub(crate) fn sample(&self, shard: u16) -> Sample {
        let is_tagged = self.prefix(shard) != self.namespace.as_str();
        Sample {
            key: self.anchor(shard),
            key_rule: format!("~{}{}*", if is_tagged { "{*}" } else { "" }, literal(&self.namespace)),
            channel: self.channel.clone(),
            channel_rule: format!("&{}*", literal(&self.namespace)),
        }
    }

    /// `stream:{queue}`, `queue:{queue}` or, for tasks of runs, `workflow:{name}` with or without a route: where workers
    /// take jobs from. The same is in `lua/run.lua`.
    pub(crate) fn target(&self, shard: u16, queue: &Queue) -> String {
        let (prefix, name) = (self.prefix(shard), queue.name.as_str());
        match (queue.guarantee, of_workflow(name)) {
            (Guarantee::AtMostOnce, _) => format!("{prefix}queue:{name}"),
            (Guarantee::AtLeastOnce, Some((workflow, None))) => format!("{prefix}workflow:{workflow}"),
            (Guarantee::AtLeastOnce, Some((workflow, Some(route)))) => {
                format!("{prefix}workflow:{workflow}:{route}")
            }
            (Guarantee::AtLeastOnce, None) => format!("{prefix}stream:{name}"),
        }
    }

    fn part(&self, shard: u16, queue: &Queue, part: &str) -> String {
        let mut key = self.target(shard, queue);
        key.push(':');
        key.push_str(part);
        key
    }

    /// Every key that a queue may have, but for its locks.
    pub(crate) fn of_queue(&self, shard: u16, queue: &Queue) -> Vec<String> {
        let parts = PARTS.iter().filter(|part| **part != "lock").map(|part| self.part(shard, queue, part));
        [self.target(shard, queue), self.purged_list(shard, queue)].into_iter().chain(parts).collect()
    }

    /// Delayed jobs by due time.
    pub(crate) fn scheduled(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "scheduled")
    }

    /// Dead letters.
    pub(crate) fn dlq(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "dlq")
    }

    /// Scheduled jobs that a purge has set apart and is about to delete. The same is in `lua/jobs/purge.lua`.
    pub(crate) fn purged(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "purged")
    }

    /// Jobs of a list that a purge has set apart and is about to delete. The same is in `lua/jobs/purge.lua`.
    pub(crate) fn purged_list(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "purged:ready")
    }

    /// Present while the queue is paused; for a stream it holds the group's position.
    pub(crate) fn paused(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "paused")
    }

    /// Jobs that wait for other chains, by when they began to: `JOB MARK`.
    pub(crate) fn blocked(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "blocked")
    }

    /// Chains whose running job is to be cancelled.
    pub(crate) fn cancelled(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "cancelled")
    }

    /// Chains in a list whose next copy is to be dropped when it is popped, and how many.
    pub(crate) fn dropped(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "dropped")
    }

    /// For how long each worker's claims on a stream last.
    pub(crate) fn leases(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "leases")
    }

    /// Jobs taken from a list whose lock is, or was, held: id to `token worker envelope`.
    pub(crate) fn running(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "running")
    }

    /// Copies of what one pop took from a list, until its worker is known to have them.
    pub(crate) fn taken(&self, shard: u16, queue: &Queue, mark: &str) -> String {
        self.part(shard, queue, &format!("taken:{mark}"))
    }

    /// Pops that have such copies, by when the copies count as given up.
    pub(crate) fn takers(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "takers")
    }

    /// Jobs taken from a list that are in no index and run: until when that is known (ms), and by which worker.
    pub(crate) fn untracked(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "untracked")
    }

    /// The one runner of this job id.
    pub(crate) fn lock(&self, shard: u16, queue: &Queue, job: &JobId) -> String {
        self.part(shard, queue, &format!("lock:{job}"))
    }

    /// The index: chain to where its job is.
    pub(crate) fn jobs(&self, shard: u16) -> String {
        format!("{}jobs", self.prefix(shard))
    }

    /// The queues there are.
    pub(crate) fn queues(&self, shard: u16) -> String {
        format!("{}queues", self.prefix(shard))
    }

    /// How a chain ended, while that is kept. Any of its jobs names it.
    pub(crate) fn record(&self, shard: u16, job: &JobId) -> String {
        format!("{}job:{}", self.prefix(shard), job.chain())
    }

    /// What one blocked job waits for and what it was told. The mark names this one wait.
    pub(crate) fn waits(&self, shard: u16, mark: &str) -> String {
        format!("{}waits:{mark}", self.prefix(shard))
    }

    /// Who waits for chains of this shard: `CHAIN MARK POSITION QUEUE JOB`.
    pub(crate) fn waiters(&self, shard: u16) -> String {
        format!("{}waiters", self.prefix(shard))
    }

    /// Chains that have closed and whose waiters are still to be told, and what of.
    pub(crate) fn notices(&self, shard: u16) -> String {
        format!("{}notices", self.prefix(shard))
    }

    /// What is still to be done in another step, by when others may carry it on.
    pub(crate) fn errands(&self, shard: u16) -> String {
        format!("{}errands", self.prefix(shard))
    }

    /// Chain to its deduplication key.
    pub(crate) fn keyed(&self, shard: u16) -> String {
        format!("{}keyed", self.prefix(shard))
    }

    /// Deduplication key to its chain.
    pub(crate) fn key(&self, shard: u16, key: &str) -> String {
        format!("{}key:{key}", self.prefix(shard))
    }

    /// What chains are made of whose deduplication key is reserved.
    pub(crate) fn reserved(&self, shard: u16) -> String {
        format!("{}reserved", self.prefix(shard))
    }

    /// What a shard has for all its queues: the first keys of scripts by which chains go on or end.
    pub(crate) fn home(&self, shard: u16) -> Vec<String> {
        vec![
            self.jobs(shard),
            self.waiters(shard),
            self.notices(shard),
            self.errands(shard),
            self.keyed(shard),
        ]
    }

    /// A run's state as JSON. Other keys of runs are made in `lua/run.lua` alone, from what scripts find there.
    pub(crate) fn instance(&self, shard: u16, run: &RunId) -> String {
        format!("{}instances-{run}", self.prefix(shard))
    }

    /// A run's journal.
    pub(crate) fn events(&self, shard: u16, run: &RunId) -> String {
        format!("{}events-{run}", self.prefix(shard))
    }

    /// The ids of what was delivered to a run. The same is in `lua/run.lua`.
    pub(crate) fn seen(&self, shard: u16, run: &RunId) -> String {
        format!("{}seen-{run}", self.prefix(shard))
    }

    /// A run's own alarms by due time: `SEQ LETTER`.
    pub(crate) fn alarms(&self, shard: u16, run: &RunId) -> String {
        format!("{}timers-{run}", self.prefix(shard))
    }

    /// The alarms of all runs by due time: `RUN SEQ LETTER`.
    pub(crate) fn timers(&self, shard: u16) -> String {
        format!("{}timers", self.prefix(shard))
    }

    /// What was no alarm, or one of a run that could not be read.
    pub(crate) fn damaged_timers(&self, shard: u16) -> String {
        format!("{}damaged-timers", self.prefix(shard))
    }

    /// What is staged for a commit or a start that is still to come.
    pub(crate) fn staged(&self, shard: u16, mark: &str) -> String {
        format!("{}staged:{mark}", self.prefix(shard))
    }

    /// Runs by when they were started; all, or those of one type.
    pub(crate) fn runs(&self, shard: u16, workflow: Option<&WorkflowName>) -> String {
        let prefix = self.prefix(shard);
        workflow.map_or_else(|| format!("{prefix}runs"), |workflow| format!("{prefix}runs:{workflow}"))
    }

    /// Ended runs of one type by when they ended.
    pub(crate) fn ended(&self, shard: u16, workflow: &str) -> String {
        format!("{}runs-ended:{workflow}", self.prefix(shard))
    }

    /// How many sessions each member of the fleet has had. All other keys of the fleet are beside it, in the first shard, and made
    /// in `lua/member.lua` and `lua/session.lua`, from what scripts find there.
    pub(crate) fn fleet(&self) -> String {
        format!("{}cluster:lifetime_connections", self.prefix(FLEET_SHARD))
    }

    /// Every key of a run.
    pub(crate) fn of_run(&self, shard: u16, run: &str) -> Vec<String> {
        let prefix = self.prefix(shard);
        OF_RUNS.iter().map(|family| format!("{prefix}{family}{run}")).collect()
    }

    /// The indexes of runs of a type: all of them, and those that have ended.
    pub(crate) fn of_workflow_type(&self, shard: u16, workflow: &str) -> Vec<String> {
        let prefix = self.prefix(shard);
        ["runs:", "runs-ended:"].iter().map(|family| format!("{prefix}{family}{workflow}")).collect()
    }

    /// The types of runs there are.
    pub(crate) fn workflows(&self, shard: u16) -> String {
        format!("{}workflows", self.prefix(shard))
    }

    /// A key of the fleet by what scripts call it, such as `fleet:members`.
    pub(crate) fn of_fleet(&self, name: &str) -> String {
        format!("{}{name}", self.prefix(FLEET_SHARD))
    }

    /// Every key of a member of the fleet, `KIND:NAME`, that has a place with this offer.
    pub(crate) fn of_member(&self, member: &str, offer: Option<&str>) -> Vec<String> {
        let own = ["worker:", "worker:cmd:", "fleet:held:"].map(|family| format!("{family}{member}"));
        let kind = member.split(':').next().unwrap_or_default();
        let shared = ["live", "leaving", "limits", "line", "asked"];
        let shared =
            offer.into_iter().flat_map(|offer| shared.map(|part| format!("fleet:{part}:{kind}:{offer}")));
        own.into_iter().chain(shared).map(|name| self.of_fleet(&name)).collect()
    }

    /// Proof that a call of a slot, or a chain that is tied to others, was added.
    pub(crate) fn receipt(&self, shard: u16, of: &str) -> String {
        format!("{}receipt:{of}", self.prefix(shard))
    }

    /// Claims of jobs that were never locked and have been given up: `TOKEN JOB` by when that was.
    pub(crate) fn released(&self, shard: u16) -> String {
        format!("{}released", self.prefix(shard))
    }

    /// The channel of wake-ups.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }
}

/// The names of wake-ups. They belong to no shard: a channel is heard everywhere, and a hint has one key.
#[derive(Debug)]
pub(crate) struct WakeKeys {
    namespace: Namespace,
    database: i64,
}

impl WakeKeys {
    pub(crate) fn new(namespace: Namespace, database: i64) -> Self {
        Self { namespace, database }
    }

    /// What rights to hints and channels are asked by.
    pub(crate) fn sample(&self) -> Sample {
        let all = literal(&self.namespace);
        Sample {
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

    /// The channel of ends.
    pub(crate) fn chainc(&self) -> String {
        format!("{}chainc", self.namespace)
    }

    /// The channel of lost leases.
    pub(crate) fn owls(&self) -> String {
        format!("{}owls", self.namespace)
    }

    /// The channel of everything else.
    pub(crate) fn wake(&self) -> String {
        own_channel(&self.namespace, self.database)
    }

    /// Where it is counted, for all jobs of a type together, how many have yet to look.
    pub(crate) fn type_hint(&self, type_name: &str) -> String {
        format!("{}hint:{type_name}", self.namespace)
    }

    /// Where it is counted how many have yet to look.
    pub(crate) fn hint(&self, hint: &Hint) -> String {
        format!("{}hint:{hint}", self.namespace)
    }
}

/// A namespace as a pattern that matches it alone.
pub(crate) fn literal(namespace: &Namespace) -> String {
    let escape = |c: char| if "*?[]^\\".contains(c) { format!("\\{c}") } else { c.to_string() };
    namespace.as_str().chars().map(escape).collect()
}

/// The channel of Tidemill's own wake-ups. Redis delivers a message to the subscribers of every database, so the name says
/// which database it is about; for the default one it is the plain name.
fn own_channel(namespace: &Namespace, database: i64) -> String {
    match database {
        0 => format!("{namespace}wake"),
        other => format!("{namespace}wake@{other}"),
    }
}

/// What the name of a queue of workflow tasks says: the workflow, and the route if there is one. A route that is called like a
/// part of a queue would have the keys of another queue.
fn of_workflow(queue: &str) -> Option<(&str, Option<&str>)> {
    let mut parts = queue.strip_prefix(WORKFLOW_QUEUE)?.split('/');
    let (workflow, route) = (parts.next()?, parts.next());
    let is_sound = |part: &str| !part.is_empty();
    let is_route = route.is_none_or(|route| is_sound(route) && !PARTS.contains(&route));
    (is_sound(workflow) && is_route && parts.next().is_none()).then_some((workflow, route))
}

/// How the keys that belong to a run begin.
pub(crate) const OF_RUNS: [&str; 5] = ["instances-", "events-", "seen-", "timers-", "effects:"];

/// How the keys that belong to a queue end.
const PARTS: [&str; 13] = [
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

/// Whether the jobs of a queue are tasks of runs.
pub(crate) fn is_of_workflow(queue: &Queue) -> bool {
    queue.name.as_str().starts_with(WORKFLOW_QUEUE)
}

/// The letter that stands for a delivery in scripts and in the index.
pub(crate) fn letter(queue: &Queue) -> &'static str {
    match queue.guarantee {
        Guarantee::AtLeastOnce => "s",
        Guarantee::AtMostOnce => "l",
    }
}

/// What the set of queues calls it.
pub(crate) fn member(queue: &Queue) -> String {
    format!("{} {}", letter(queue), queue.name)
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
        let keys = Keys::new(&Options::parse("redis://h").unwrap().namespace(namespace));
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
        let keys = Keys::new(&Options::parse("redis://h").unwrap().namespace(Namespace::new("").unwrap()));
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
        let channel = |url| Keys::new(&Options::parse(url).unwrap()).channel().to_owned();
        assert_eq!(channel("redis://h"), "tidemill:wake");
        assert_eq!(channel("redis://h/0"), "tidemill:wake");
        assert_eq!(channel("redis://h/3"), "tidemill:wake@3");
        let keys = |database| WakeKeys::new(Namespace::default(), database).wake();
        assert_eq!([keys(0), keys(3)], ["tidemill:wake", "tidemill:wake@3"]);
    }

    #[test]
    fn begin_with_the_shard_s_tag_when_there_are_several() {
        let keys = Keys::new(&Options::parse("redis+cluster://h").unwrap());
        let job = JobId::new("j1").unwrap();
        assert!(keys.record(7, &job).starts_with("{7}tidemill:"));
        assert!((0..1000).map(|_| keys.shard_of(&JobId::generate())).all(|shard| shard < 8));
    }
}
