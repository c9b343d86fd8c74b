//! Every key and channel, in one place. `docs/redis-schema.md` documents each.

use tidemill_core::courier::Hint;
use tidemill_core::{Delivery, JobId, Namespace, Queue};

use crate::options::Options;

/// Makes the keys of a store. With one shard they are literally the documented ones behind the namespace;
/// with more, each begins with its shard's hash tag, so that what belongs together is on one server.
#[derive(Debug)]
pub(crate) struct Keys {
    prefixes: Vec<String>,
    channel: String,
}

impl Keys {
    pub(crate) fn new(options: &Options) -> Self {
        let namespace = &options.namespace;
        let tagged = options.cluster || options.shards > 1;
        let prefix = |shard| if tagged { format!("{{{shard}}}{namespace}") } else { namespace.to_string() };
        Self { prefixes: (0..options.shards).map(prefix).collect(), channel: format!("{namespace}wake") }
    }

    pub(crate) fn shards(&self) -> u16 {
        u16::try_from(self.prefixes.len()).unwrap_or(u16::MAX)
    }

    /// The shard of a job: that of its chain, so that all its steps are in one.
    pub(crate) fn shard_of(&self, job: &JobId) -> u16 {
        if self.prefixes.len() == 1 { 0 } else { self.shard_by(job.chain().as_str()) }
    }

    /// The shard of a deduplication key. The chain that has it may be in another.
    pub(crate) fn shard_of_key(&self, key: &str) -> u16 {
        self.shard_by(key)
    }

    /// By a hash that every version computes alike (FNV-1a).
    fn shard_by(&self, name: &str) -> u16 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        u16::try_from(hash % self.prefixes.len() as u64).unwrap_or(0)
    }

    fn prefix(&self, shard: u16) -> &str {
        &self.prefixes[usize::from(shard)]
    }

    /// A key that any slot computation about this shard can use.
    pub(crate) fn anchor(&self, shard: u16) -> String {
        self.jobs(shard)
    }

    /// `stream:{queue}` or `queue:{queue}`: where workers take jobs from.
    pub(crate) fn target(&self, shard: u16, queue: &Queue) -> String {
        let family = match queue.delivery {
            Delivery::AtLeastOnce => "stream",
            Delivery::AtMostOnce => "queue",
        };
        format!("{}{family}:{}", self.prefix(shard), queue.name)
    }

    fn part(&self, shard: u16, queue: &Queue, part: &str) -> String {
        let mut key = self.target(shard, queue);
        key.push(':');
        key.push_str(part);
        key
    }

    /// Delayed jobs by due time.
    pub(crate) fn scheduled(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "scheduled")
    }

    /// Dead letters.
    pub(crate) fn dlq(&self, shard: u16, queue: &Queue) -> String {
        self.part(shard, queue, "dlq")
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

    /// Proof that a batch of untracked jobs, or a chain with a key, was added.
    pub(crate) fn receipt(&self, shard: u16, of: &str) -> String {
        format!("{}receipt:{of}", self.prefix(shard))
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
}

impl WakeKeys {
    pub(crate) fn new(namespace: Namespace) -> Self {
        Self { namespace }
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
        format!("{}wake", self.namespace)
    }

    /// Where it is counted how many have yet to look.
    pub(crate) fn hint(&self, hint: &Hint) -> String {
        format!("{}hint:{hint}", self.namespace)
    }
}

/// The letter that stands for a delivery in scripts and in the index.
pub(crate) fn letter(queue: &Queue) -> &'static str {
    match queue.delivery {
        Delivery::AtLeastOnce => "s",
        Delivery::AtMostOnce => "l",
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

    fn queue(name: &str, delivery: Delivery) -> Queue {
        Queue { name: QueueName::new(name).unwrap(), delivery }
    }

    #[test]
    fn are_literally_the_documented_ones_with_one_shard() {
        let namespace = Namespace::new("msaas:dev:").unwrap();
        let keys = Keys::new(&Options::parse("redis://h").unwrap().namespace(namespace));
        let (list, stream) =
            (queue("jobs.generic", Delivery::AtMostOnce), queue("jobs.browser", Delivery::AtLeastOnce));
        assert_eq!(keys.target(0, &list), "msaas:dev:queue:jobs.generic");
        assert_eq!(keys.scheduled(0, &list), "msaas:dev:queue:jobs.generic:scheduled");
        let job = JobId::new("j1").unwrap();
        assert_eq!(keys.lock(0, &list, &job), "msaas:dev:queue:jobs.generic:lock:j1");
        assert_eq!(keys.target(0, &stream), "msaas:dev:stream:jobs.browser");
        assert_eq!(keys.dlq(0, &stream), "msaas:dev:stream:jobs.browser:dlq");
    }

    #[test]
    fn of_wake_ups_are_literally_those_of_other_programs() {
        let keys = WakeKeys::new(Namespace::new("queuert:").unwrap());
        let hint = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
        assert_eq!(keys.hint(&hint), "queuert:hint:550e8400-e29b-41d4-a716-446655440000");
        assert_eq!(
            [keys.sched(), keys.chainc(), keys.owls()],
            ["queuert:sched", "queuert:chainc", "queuert:owls"]
        );
    }

    #[test]
    fn begin_with_the_shard_s_tag_when_there_are_several() {
        let keys = Keys::new(&Options::parse("redis+cluster://h").unwrap());
        let job = JobId::new("j1").unwrap();
        assert!(keys.record(7, &job).starts_with("{7}tidemill:"));
        assert!((0..1000).map(|_| keys.shard_of(&JobId::generate())).all(|shard| shard < 8));
    }
}
