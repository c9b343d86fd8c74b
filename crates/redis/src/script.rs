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

macro_rules! scripts {
    ($($name:ident: $oom:ident),* $(,)?) => {
        /// All scripts.
        #[derive(Debug)]
        pub(crate) struct Scripts { $(pub(crate) $name: Script),* }

        impl Scripts {
            /// The scripts for a server; flags are known from version 7 on.
            pub(crate) fn new(flags: bool) -> Self {
                Self { $($name: Script::new(
                    stringify!($name),
                    include_str!(concat!("../lua/jobs/", stringify!($name), ".lua")),
                    flags && AtOom::$oom == AtOom::Runs,
                )),* }
            }
        }
    };
}

scripts! {
    enqueue: Refused,
    again: Refused,
    start: Runs,
    retreat: Runs,
    extend: Runs,
    finish: Runs,
    settle: Runs,
    lock: Runs,
    hold: Runs,
    release: Runs,
    promote: Runs,
    cancel: Runs,
    redrive: Refused,
    drop: Runs,
    pause: Runs,
    resume: Runs,
    purge: Runs,
    leave: Runs,
}

impl Script {
    fn new(name: &'static str, body: &str, allow_oom: bool) -> Self {
        let flags = if allow_oom { "#!lua flags=allow-oom\n" } else { "" };
        let code = format!("{flags}{}\n{body}", include_str!("../lua/prelude.lua"));
        let sha = Source::new(&code).get_hash().to_owned();
        Self { name, code, sha }
    }
}
