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
#[derive(Debug, Clone, Copy)]
enum Basis {
    /// Queues and the index.
    Queue,
    /// What happens when chains go on or end, too.
    Chain,
    /// One job wherever it is, too.
    Place,
}

impl Basis {
    fn code(self) -> &'static str {
        match self {
            Self::Queue => include_str!("../lua/prelude.lua"),
            Self::Chain => {
                concat!(include_str!("../lua/prelude.lua"), "\n", include_str!("../lua/chain.lua"))
            }
            Self::Place => concat!(
                include_str!("../lua/prelude.lua"),
                "\n",
                include_str!("../lua/chain.lua"),
                "\n",
                include_str!("../lua/place.lua")
            ),
        }
    }
}

macro_rules! scripts {
    ($($noun:literal { $($name:ident: $basis:ident, $oom:ident;)* })*) => {
        /// All scripts.
        #[derive(Debug)]
        pub(crate) struct Scripts { $($(pub(crate) $name: Script),*),* }

        impl Scripts {
            /// The scripts for a server; flags are known from version 7 on.
            pub(crate) fn new(flags: bool) -> Self {
                Self { $($($name: Script::new(
                    stringify!($name),
                    (Basis::$basis, include_str!(concat!("../lua/", $noun, "/", stringify!($name), ".lua"))),
                    flags && AtOom::$oom == AtOom::Runs,
                )),*),* }
            }
        }
    };
}

scripts! {
    "jobs" {
        enqueue: Queue, Refused;
        again: Queue, Refused;
        start: Queue, Runs;
        retreat: Queue, Runs;
        extend: Queue, Runs;
        finish: Chain, Runs;
        settle: Chain, Runs;
        lock: Queue, Runs;
        hold: Queue, Runs;
        release: Chain, Runs;
        promote: Queue, Runs;
        cancel: Place, Runs;
        redrive: Queue, Refused;
        drop: Chain, Runs;
        pause: Queue, Runs;
        resume: Queue, Runs;
        purge: Chain, Runs;
        leave: Queue, Runs;
    }
    "chains" {
        begin: Chain, Refused;
        register: Queue, Runs;
        inform: Chain, Runs;
        relayed: Chain, Runs;
        waits: Queue, Runs;
        reserve: Queue, Refused;
        assign: Queue, Runs;
        unkey: Queue, Runs;
        complete: Place, Runs;
        delete: Place, Runs;
    }
}

impl Script {
    fn new(name: &'static str, (basis, body): (Basis, &str), allow_oom: bool) -> Self {
        let flags = if allow_oom { "#!lua flags=allow-oom\n" } else { "" };
        let code = format!("{flags}{}\n{body}", basis.code());
        let sha = Source::new(&code).get_hash().to_owned();
        Self { name, code, sha }
    }
}
