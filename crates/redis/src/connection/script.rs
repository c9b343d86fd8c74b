//! The Lua scripts, composed with their libraries and called by hash.

use redis::Script as Source;

use super::keys::QUEUE_KEY_SUFFIXES;

/// One script, composed for a server version.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) code: String,
    pub(crate) sha: String,
}

/// Whether a script may run when the server is out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OomPolicy {
    /// It frees memory or leases: settling, extending, reaping.
    Runs,
    /// It adds data: it is refused as a whole, before its first write.
    Refused,
}

/// The libraries of a script. Unused functions cost time in every call, so each gets only what it
/// needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Library {
    /// No library.
    None,
    /// Time, numbers and type checks.
    Base,
    /// Queues and the index.
    Queue,
    /// Also the end of chains.
    Close,
    /// Queues and the index, and cancelled jobs of lists.
    Dropped,
    /// Also the continuation of chains.
    Chain,
    /// Also one job at its location.
    JobLocation,
    /// Base, and the position of a stream's group.
    StreamPosition,
    /// Everything about jobs, and runs.
    Run,
    /// The fleet, which does not concern jobs.
    Fleet,
}

impl Library {
    /// Whether a script with this library needs another. Each includes those before it.
    /// `StreamPosition` and `Fleet` include only `Base`, and `Dropped` only `Queue`.
    fn needs(self, part: Self) -> bool {
        match self {
            Self::Dropped => matches!(part, Self::Base | Self::Queue | Self::Dropped),
            Self::StreamPosition => matches!(part, Self::Base | Self::StreamPosition),
            Self::Fleet => matches!(part, Self::Base | Self::Fleet),
            _ => part <= self,
        }
    }
}

impl Library {
    /// The source of this library and of those it needs.
    fn code(self) -> String {
        let mut code = String::new();
        if self.needs(Self::Run) {
            let names = QUEUE_KEY_SUFFIXES.map(|name| format!("{name} = true")).join(", ");
            code = format!("local RESERVED = {{ {names} }}\n");
        }
        for (_, part) in LIBRARIES.iter().filter(|(part, _)| self.needs(*part)) {
            code.push_str(part);
            code.push('\n');
        }
        code
    }
}

/// The source of each library.
const LIBRARIES: [(Library, &str); 10] = [
    (Library::Base, include_str!("../../lua/lib/base.lua")),
    (Library::Queue, include_str!("../../lua/lib/queue.lua")),
    (Library::Close, include_str!("../../lua/lib/close.lua")),
    (Library::Dropped, include_str!("../../lua/lib/dropped.lua")),
    (Library::Chain, include_str!("../../lua/lib/chain.lua")),
    (Library::JobLocation, include_str!("../../lua/lib/job_location.lua")),
    (Library::StreamPosition, include_str!("../../lua/lib/stream_position.lua")),
    (Library::Run, include_str!("../../lua/lib/run.lua")),
    (Library::Fleet, include_str!("../../lua/lib/worker.lua")),
    (Library::Fleet, include_str!("../../lua/lib/session.lua")),
];

macro_rules! scripts {
    ($(#[$doc:meta])* $type:ident: $($noun:literal { $($name:ident: $library:ident, $oom:ident;)* })*) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $type { $($(pub(crate) $name: Script),*),* }

        impl $type {
            /// The scripts for a server; `flags` are supported since version 7.
            pub(crate) fn new(flags: bool) -> Self {
                Self { $($($name: Script::new(
                    stringify!($name),
                    (Library::$library, include_str!(concat!("../../lua/", $noun, "/", stringify!($name), ".lua"))),
                    flags && OomPolicy::$oom == OomPolicy::Runs,
                )),*),* }
            }

            /// All of them.
            pub(crate) fn iter(&self) -> impl Iterator<Item = &Script> {
                [$($(&self.$name),*),*].into_iter()
            }
        }
    };
}

scripts! {
    /// Scripts about jobs, chains and runs.
    Scripts:
    "jobs" {
        enqueue_plain: None, Refused;
        enqueue: Queue, Refused;
        untracked: None, Refused;
        keep_added: None, Refused;
        prepare: Queue, Runs;
        start: Queue, Runs;
        unstart: Queue, Runs;
        extend: Queue, Runs;
        finish: Close, Runs;
        settle: Chain, Runs;
        pop: None, Runs;
        unpop: Base, Runs;
        sweep_pops: Queue, Runs;
        overdue: Run, Runs;
        lock: Dropped, Runs;
        extend_locks: Queue, Runs;
        cancel_untracked: Base, Runs;
        forget_untracked: Base, Runs;
        promote: Queue, Runs;
        cancel: Run, Runs;
        redrive: Queue, Refused;
        drop_dead: Close, Runs;
        stream_position: StreamPosition, Runs;
        repair: Run, Runs;
        leave: Queue, Runs;
        orphans: Queue, Runs;
        forget_orphans: Close, Runs;
        complete: JobLocation, Runs;
        delete: JobLocation, Runs;
    }
    "queues" {
        pause: StreamPosition, Runs;
        resume: StreamPosition, Runs;
        count: StreamPosition, Runs;
        begin_purge: Close, Runs;
        purge: Run, Runs;
    }
    "chains" {
        link: Chain, Refused;
        register_wait: Queue, Runs;
        notify_blocked: Close, Runs;
        read_notice: Queue, Runs;
        notified: Close, Runs;
        read_waits: Queue, Runs;
        reserve_key: Queue, Refused;
        assign_key: Queue, Runs;
        expire_key: Queue, Runs;
    }
    "runs" {
        start_run: Run, Refused;
        deliver: Run, Refused;
        commit: Run, Runs;
        terminate: Run, Runs;
        stage_effects: None, Runs;
        stage_journal: Base, Refused;
        apply_effects: Run, Runs;
        complete_activity: Run, Runs;
        fire_timers: Run, Runs;
        prune_runs: Run, Runs;
        read_journal: None, Runs;
    }
}

scripts! {
    /// Scripts about the fleet.
    FleetScripts:
    "fleet" {
        join: Fleet, Refused;
        beat: Fleet, Runs;
        part: Fleet, Runs;
        lease: Fleet, Refused;
        attach: Fleet, Runs;
        release: Fleet, Runs;
        close: Fleet, Runs;
        drain: Fleet, Runs;
        reap: Fleet, Runs;
        list_workers: Fleet, Runs;
        list_sessions: Fleet, Runs;
        list_waiting: Fleet, Runs;
    }
}

impl Script {
    fn new(name: &'static str, (library, body): (Library, &str), allow_oom: bool) -> Self {
        let flags = if allow_oom { "#!lua flags=allow-oom\n" } else { "" };
        let code = format!("{flags}{}{body}", library.code());
        let sha = Source::new(&code).get_hash().to_owned();
        Self { name, code, sha }
    }

    /// Whether it may send a command, such as `XADD` or `XGROUP CREATE`.
    pub(crate) fn sends(&self, command: &str) -> bool {
        // As the first argument of `redis.call`, or of a function that forwards it.
        self.code.contains(&format!("('{}'", command.replacen(' ', "', '", 1)))
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::workflow::RunId;
    use tidemill_core::{Guarantee, JobId, Queue, QueueName};
    use tidemill_testkit::servers::Redis;

    use super::*;
    use crate::connection::keys::{Keys, RUN_KEY_PREFIXES, kind_letter};
    use crate::options::RedisOptions;

    /// Runs a script after a library, and returns the texts of its reply.
    fn texts(redis: &Redis, library: Library, key: &str, arg: &[u8], body: &str) -> Vec<String> {
        let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
        let code = format!("{}{body}", library.code());
        redis::cmd("EVAL").arg(code).arg(1).arg(key).arg(arg).query(&mut connection).unwrap()
    }

    #[test]
    fn build_the_same_keys_of_queues_and_runs_as_the_store() {
        let redis = Redis::start().unwrap();
        let keys = Keys::new(&RedisOptions::parse("redis://h").unwrap());
        let mut queues: Vec<(String, Guarantee)> = [
            "mail",
            "workflow/order",
            "workflow/order/eu",
            "workflow/order/eu/west",
            "workflow/",
            "workflow//x",
        ]
        .map(|name| (name.to_owned(), Guarantee::AtLeastOnce))
        .to_vec();
        queues.extend(
            QUEUE_KEY_SUFFIXES.map(|name| (format!("workflow/order/{name}"), Guarantee::AtLeastOnce)),
        );
        queues.extend(["mail", "workflow/order"].map(|name| (name.to_owned(), Guarantee::AtMostOnce)));
        for (name, guarantee) in queues {
            let queue = Queue { name: QueueName::new(&name).unwrap(), guarantee };
            let body = format!("return {{ target_key('{}', '{name}') }}", kind_letter(&queue));
            assert_eq!(
                texts(&redis, Library::Run, &keys.jobs(0), b"", &body),
                [keys.target(0, &queue)],
                "{name}"
            );
        }
        let queue = Queue { name: QueueName::new("mail").unwrap(), guarantee: Guarantee::AtMostOnce };
        let body =
            "local q = queue_keys({ queues = {}, groups = {}, shard = { jobs = KEYS[1] } }, 'l', 'mail')
            return { q.scheduled, q.dlq, q.blocked, q.cancelled, q.running, q.dropped, q.leases }";
        let built = [
            keys.scheduled(0, &queue),
            keys.dlq(0, &queue),
            keys.blocked(0, &queue),
            keys.cancelled(0, &queue),
            keys.running(0, &queue),
            keys.dropped(0, &queue),
            keys.leases(0, &queue),
        ];
        assert_eq!(texts(&redis, Library::Run, &keys.jobs(0), b"", body), built);
        let run = RunId::new("r").unwrap();
        let body = "local r = run_keys('r')
            return { r.key, r.events, r.seen, r.timers, r.pending, TIMERS, RUNS, WORKFLOWS, ENDED .. ':w',
              PREFIX .. 'job:r', PREFIX .. 'waits:m', PREFIX .. 'staged:s', PREFIX .. 'damaged-timers' }";
        let mut built = keys.run_keys(0, "r");
        assert_eq!(built.len(), RUN_KEY_PREFIXES.len());
        assert_eq!(built[..3], [keys.instance(0, &run), keys.events(0, &run), keys.seen(0, &run)]);
        built.extend([keys.timers(0), keys.runs(0, None), keys.workflows(0), keys.ended_runs(0, "w")]);
        built.extend([keys.record(0, &JobId::new("r").unwrap()), keys.waits(0, "m"), keys.staged(0, "s")]);
        built.push(keys.damaged_timers(0));
        assert_eq!(texts(&redis, Library::Run, &keys.jobs(0), b"", body), built);
    }

    #[test]
    fn build_the_same_keys_of_the_fleet_as_the_store() {
        let redis = Redis::start().unwrap();
        let keys = Keys::new(&RedisOptions::parse("redis://h").unwrap());
        let body = "local id, q = 'chromium:a', open_wait_queue('chromium', 'o')
            return { WORKER .. id, WORKER .. 'cmd:' .. id, held_key(id), live_key('chromium', 'o'),
              leaving_key('chromium', 'o'), limits_key('chromium', 'o'), q.turns, q.asked }";
        let empty_map = [0x80];
        let built = texts(&redis, Library::Fleet, &keys.lifetime_connections(), &empty_map, body);
        assert_eq!(built, keys.worker_keys("chromium:a", Some("o")));
    }
}
