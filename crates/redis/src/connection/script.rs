//! The Lua scripts, composed with their libraries and called by hash.

use redis::Script as Source;

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
        let mut code = flags.to_owned();
        for (_, part) in LIBRARIES.iter().filter(|(part, _)| library.needs(*part)) {
            code.push_str(part);
            code.push('\n');
        }
        code.push_str(body);
        let sha = Source::new(&code).get_hash().to_owned();
        Self { name, code, sha }
    }

    /// Whether it may send a command, such as `XADD` or `XGROUP CREATE`.
    pub(crate) fn sends(&self, command: &str) -> bool {
        // As the first argument of `redis.call`, or of a function that forwards it.
        self.code.contains(&format!("('{}'", command.replacen(' ', "', '", 1)))
    }
}
