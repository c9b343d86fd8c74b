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
    (Basis::Basics, include_str!("../lua/basics.lua")),
    (Basis::Queue, include_str!("../lua/prelude.lua")),
    (Basis::Close, include_str!("../lua/close.lua")),
    (Basis::Dropped, include_str!("../lua/dropped.lua")),
    (Basis::Chain, include_str!("../lua/chain.lua")),
    (Basis::Place, include_str!("../lua/place.lua")),
    (Basis::Position, include_str!("../lua/position.lua")),
    (Basis::Run, include_str!("../lua/run.lua")),
    (Basis::Fleet, include_str!("../lua/member.lua")),
    (Basis::Fleet, include_str!("../lua/session.lua")),
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
                    (Basis::$basis, include_str!(concat!("../lua/", $noun, "/", stringify!($name), ".lua"))),
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
        add: Bare, Refused;
        enqueue: Queue, Refused;
        untracked: Bare, Refused;
        prepare: Queue, Runs;
        start: Queue, Runs;
        retreat: Queue, Runs;
        extend: Queue, Runs;
        finish: Close, Runs;
        settle: Chain, Runs;
        pop: Bare, Runs;
        unpop: Basics, Runs;
        sweep: Queue, Runs;
        overdue: Run, Runs;
        lock: Dropped, Runs;
        hold: Queue, Runs;
        cancel_untracked: Basics, Runs;
        forget_untracked: Basics, Runs;
        release: Chain, Runs;
        promote: Queue, Runs;
        cancel: Run, Runs;
        redrive: Queue, Refused;
        drop: Close, Runs;
        pause: Position, Runs;
        resume: Position, Runs;
        position: Position, Runs;
        count: Position, Runs;
        repair: Run, Runs;
        begin_purge: Close, Runs;
        purge: Run, Runs;
        leave: Queue, Runs;
        suspects: Queue, Runs;
        forget: Close, Runs;
    }
    "chains" {
        begin: Chain, Refused;
        register: Queue, Runs;
        inform: Close, Runs;
        notice: Queue, Runs;
        relayed: Close, Runs;
        waits: Queue, Runs;
        reserve: Queue, Refused;
        assign: Queue, Runs;
        unkey: Queue, Runs;
        complete: Place, Runs;
        delete: Place, Runs;
    }
    "runs" {
        start_run: Run, Refused;
        deliver: Run, Refused;
        commit: Run, Runs;
        terminate: Run, Runs;
        stage: Bare, Runs;
        stage_journal: Basics, Refused;
        apply_effects: Run, Runs;
        answer: Run, Runs;
        fire: Run, Runs;
        prune_runs: Run, Runs;
        journal: Bare, Runs;
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
        members: Fleet, Runs;
        sessions: Fleet, Runs;
        lines: Fleet, Runs;
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
