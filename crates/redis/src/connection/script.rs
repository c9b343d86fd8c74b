//! The Lua scripts, and calling them by hash.

use redis::Script as Source;

/// One script, ready for a server of a certain version.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) code: String,
    pub(crate) sha: String,
}

/// Whether a script may run when the server is out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtOom {
    /// It frees what others wait for: settling, extending, reaping.
    Runs,
    /// It adds: it is refused as a whole, before it writes.
    Refused,
}

/// What a script builds on. Functions that a script does not use cost it time, so each gets only what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Basis {
    /// Nothing.
    Bare,
    /// Time, numbers and types of keys.
    Basics,
    /// Queues and the index.
    Queue,
    /// Also what happens when a chain ends.
    Close,
    /// Queues and the index, and cancelled jobs of lists.
    Dropped,
    /// Also what happens when one goes on.
    Chain,
    /// Also one job wherever it is.
    Place,
    /// The basics, and how far a stream has been read.
    Position,
    /// Everything about jobs, and runs.
    Run,
    /// The fleet, which knows nothing of jobs.
    Fleet,
}

impl Basis {
    /// Whether a script on this basis needs a part. Each builds on those before it; positions and the fleet on the basics
    /// alone, and cancelled jobs of lists on queues.
    fn needs(self, part: Self) -> bool {
        match self {
            Self::Dropped => matches!(part, Self::Basics | Self::Queue | Self::Dropped),
            Self::Position => matches!(part, Self::Basics | Self::Position),
            Self::Fleet => matches!(part, Self::Basics | Self::Fleet),
            _ => part <= self,
        }
    }
}

/// What each basis adds.
const PARTS: [(Basis, &str); 10] = [
    (Basis::Basics, include_str!("../../lua/lib/base.lua")),
    (Basis::Queue, include_str!("../../lua/lib/queue.lua")),
    (Basis::Close, include_str!("../../lua/lib/close.lua")),
    (Basis::Dropped, include_str!("../../lua/lib/dropped.lua")),
    (Basis::Chain, include_str!("../../lua/lib/chain.lua")),
    (Basis::Place, include_str!("../../lua/lib/job_location.lua")),
    (Basis::Position, include_str!("../../lua/lib/stream_position.lua")),
    (Basis::Run, include_str!("../../lua/lib/run.lua")),
    (Basis::Fleet, include_str!("../../lua/lib/worker.lua")),
    (Basis::Fleet, include_str!("../../lua/lib/session.lua")),
];

macro_rules! scripts {
    ($(#[$doc:meta])* $type:ident: $($noun:literal { $($name:ident: $basis:ident, $oom:ident;)* })*) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $type { $($(pub(crate) $name: Script),*),* }

        impl $type {
            /// The scripts for a server; flags are known from version 7 on.
            pub(crate) fn new(flags: bool) -> Self {
                Self { $($($name: Script::new(
                    stringify!($name),
                    (Basis::$basis, include_str!(concat!("../../lua/", $noun, "/", stringify!($name), ".lua"))),
                    flags && AtOom::$oom == AtOom::Runs,
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
        enqueue_plain: Bare, Refused;
        enqueue: Queue, Refused;
        untracked: Bare, Refused;
        keep_added: Bare, Refused;
        prepare: Queue, Runs;
        start: Queue, Runs;
        unstart: Queue, Runs;
        extend: Queue, Runs;
        finish: Close, Runs;
        settle: Chain, Runs;
        pop: Bare, Runs;
        unpop: Basics, Runs;
        sweep_pops: Queue, Runs;
        overdue: Run, Runs;
        lock: Dropped, Runs;
        extend_locks: Queue, Runs;
        cancel_untracked: Basics, Runs;
        forget_untracked: Basics, Runs;
        release: Chain, Runs;
        promote: Queue, Runs;
        cancel: Run, Runs;
        redrive: Queue, Refused;
        drop_dead: Close, Runs;
        stream_position: Position, Runs;
        repair: Run, Runs;
        leave: Queue, Runs;
        orphans: Queue, Runs;
        forget_orphans: Close, Runs;
        complete: Place, Runs;
        delete: Place, Runs;
    }
    "queues" {
        pause: Position, Runs;
        resume: Position, Runs;
        count: Position, Runs;
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
        stage_effects: Bare, Runs;
        stage_journal: Basics, Refused;
        apply_effects: Run, Runs;
        complete_activity: Run, Runs;
        fire_timers: Run, Runs;
        prune_runs: Run, Runs;
        read_journal: Bare, Runs;
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
    fn new(name: &'static str, (basis, body): (Basis, &str), allow_oom: bool) -> Self {
        let flags = if allow_oom { "#!lua flags=allow-oom\n" } else { "" };
        let mut code = flags.to_owned();
        for (_, part) in PARTS.iter().filter(|(part, _)| basis.needs(*part)) {
            code.push_str(part);
            code.push('\n');
        }
        code.push_str(body);
        let sha = Source::new(&code).get_hash().to_owned();
        Self { name, code, sha }
    }

    /// Whether it may send a command, as `XADD` or `XGROUP CREATE`.
    pub(crate) fn sends(&self, command: &str) -> bool {
        // As the first argument of `redis.call`, or of a function that passes it on.
        self.code.contains(&format!("('{}'", command.replacen(' ', "', '", 1)))
    }
}
