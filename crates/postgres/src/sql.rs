//! Every statement by its name: the path of its file under `sql/`, whose README says how they are written.

/// A statement, and what to call it in an error.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// What stands for the schema in the text of a statement.
const SCHEMA: &str = "tidemill.";

impl Sql {
    /// The text for a schema.
    pub(crate) fn render(&self, schema: &str) -> String {
        self.text.replace(SCHEMA, &format!("\"{schema}\"."))
    }

    /// The function that is called, if the statement does nothing but call one with its parameters. Any other
    /// statement is the body of a function of its own.
    pub(crate) fn called(&self) -> Option<&'static str> {
        let (_, call) = self.text.split_once(SCHEMA)?;
        call.split_once('(').map(|(name, _)| name)
    }

    /// The name of the function that does this statement's work.
    pub(crate) fn function(&self) -> String {
        self.called().map_or_else(|| self.name.replace('/', "_"), str::to_owned)
    }
}

macro_rules! sql {
    ($name:literal) => {
        Sql { name: $name, text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql")) }
    };
}

/// Defines statements, and lists all of them in `STATEMENTS`.
macro_rules! statements {
    ($(pub(crate) static $constant:ident: Sql = sql!($name:literal);)*) => {
        $(pub(crate) static $constant: Sql = sql!($name);)*
        /// Every statement whose work is done by a function in the schema.
        pub(crate) static STATEMENTS: &[&Sql] = &[$(&$constant),*];
    };
}

// What is sent as it is written: before there are any functions, and by the raw loop.
pub(crate) static SCHEMA_STATE: Sql = sql!("schema/state");
pub(crate) static VERSION: Sql = sql!("schema/version");
pub(crate) static FLOOR_ENQUEUE: Sql = sql!("floor/enqueue");
pub(crate) static FLOOR_READ: Sql = sql!("floor/read");
pub(crate) static FLOOR_CLAIM: Sql = sql!("floor/claim");
pub(crate) static FLOOR_ACKNOWLEDGE: Sql = sql!("floor/acknowledge");

statements! {
pub(crate) static INSERT: Sql = sql!("jobs/insert");
pub(crate) static ENQUEUE: Sql = sql!("jobs/enqueue");
pub(crate) static LINK: Sql = sql!("jobs/link");
pub(crate) static FORGET: Sql = sql!("jobs/forget");
pub(crate) static FIND_RECEIPT: Sql = sql!("receipts/find");
pub(crate) static PRUNE_RECEIPTS: Sql = sql!("receipts/prune");
pub(crate) static CLAIM: Sql = sql!("jobs/claim");
pub(crate) static CANCEL: Sql = sql!("jobs/cancel");
pub(crate) static PURGE: Sql = sql!("jobs/purge");
pub(crate) static PURGE_BLOCKED: Sql = sql!("jobs/purge_blocked");
pub(crate) static BORDER: Sql = sql!("jobs/border");
pub(crate) static PROMOTE: Sql = sql!("jobs/promote");
pub(crate) static PRUNE: Sql = sql!("jobs/prune");
pub(crate) static GET: Sql = sql!("jobs/get");
pub(crate) static LIST_WAITING: Sql = sql!("jobs/list_waiting");
pub(crate) static LIST_BLOCKED: Sql = sql!("jobs/list_blocked");
pub(crate) static LIST_RUNNING: Sql = sql!("jobs/list_running");
pub(crate) static LIST_LETTERS: Sql = sql!("letters/list");
pub(crate) static REDRIVE: Sql = sql!("letters/redrive");
pub(crate) static DROP_LETTERS: Sql = sql!("letters/drop");
pub(crate) static START: Sql = sql!("leases/start");
pub(crate) static START_FREE: Sql = sql!("leases/start_free");
pub(crate) static EXTEND: Sql = sql!("leases/extend");
pub(crate) static EXPIRED: Sql = sql!("leases/expired");
pub(crate) static RECOVER: Sql = sql!("leases/recover");
pub(crate) static SHORTEN: Sql = sql!("leases/shorten");
pub(crate) static ADVANCE: Sql = sql!("jobs/advance");
pub(crate) static FINISH: Sql = sql!("leases/finish");
pub(crate) static RECORD: Sql = sql!("leases/record");
pub(crate) static REQUEUE: Sql = sql!("leases/requeue");
pub(crate) static CONTINUE: Sql = sql!("leases/continue");
pub(crate) static DROP_CANCELLED: Sql = sql!("leases/drop");
pub(crate) static BURY: Sql = sql!("leases/bury");
pub(crate) static COMPLETE: Sql = sql!("chains/complete");
pub(crate) static COMPLETE_BY_CONTINUING: Sql = sql!("chains/complete_by_continuing");
pub(crate) static COMPLETE_BY_DELIVERING: Sql = sql!("chains/complete_by_delivering");
pub(crate) static DELETE_CHAIN: Sql = sql!("chains/delete");
pub(crate) static RELEASE_OWED: Sql = sql!("chains/release_owed");
pub(crate) static SETTLE_RUNS: Sql = sql!("runs/settle");
pub(crate) static START_RUN: Sql = sql!("runs/start");
pub(crate) static DELIVER: Sql = sql!("runs/deliver");
pub(crate) static TERMINATE: Sql = sql!("runs/terminate");
pub(crate) static JOURNAL: Sql = sql!("runs/journal");
pub(crate) static GET_RUN: Sql = sql!("runs/get");
pub(crate) static LIST_RUNS: Sql = sql!("runs/list");
pub(crate) static PRUNE_RUNS: Sql = sql!("runs/prune");
pub(crate) static JOIN: Sql = sql!("fleet/join");
pub(crate) static BEAT: Sql = sql!("fleet/beat");
pub(crate) static PART: Sql = sql!("fleet/part");
pub(crate) static LEASE: Sql = sql!("fleet/lease");
pub(crate) static ATTACH: Sql = sql!("fleet/attach");
pub(crate) static RELEASE: Sql = sql!("fleet/release");
pub(crate) static CLOSE: Sql = sql!("fleet/close");
pub(crate) static DRAIN: Sql = sql!("fleet/drain");
pub(crate) static REAP: Sql = sql!("fleet/reap");
pub(crate) static MEMBER: Sql = sql!("fleet/member");
pub(crate) static MEMBERS: Sql = sql!("fleet/members");
pub(crate) static MEMBERS_OF: Sql = sql!("fleet/members_of");
pub(crate) static SESSION: Sql = sql!("fleet/session");
pub(crate) static SESSIONS: Sql = sql!("fleet/sessions");
pub(crate) static SESSIONS_OF: Sql = sql!("fleet/sessions_of");
pub(crate) static LINES: Sql = sql!("fleet/lines");
pub(crate) static FIND_QUEUE: Sql = sql!("queues/find");
pub(crate) static MAKE_QUEUE: Sql = sql!("queues/make");
pub(crate) static PAUSE: Sql = sql!("queues/pause");
pub(crate) static LIST_QUEUES: Sql = sql!("queues/list");
pub(crate) static RIGHTS: Sql = sql!("schema/rights");
pub(crate) static NOTIFY: Sql = sql!("wake/notify");
pub(crate) static SERVER: Sql = sql!("checkup/server");
pub(crate) static HEALTH: Sql = sql!("checkup/health");
pub(crate) static IDENTITY: Sql = sql!("checkup/identity");
}
