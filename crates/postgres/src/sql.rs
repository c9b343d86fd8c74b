//! Every statement by its name: the path of its file below `sql/`. The README there says how
//! statements are written.

/// A statement, and its name in errors.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) name: &'static str,
    /// The name of its function, if that does not follow from `name`. Functions keep the names that
    /// they have in existing schemas: they are replaced only with a new schema version.
    function: Option<&'static str>,
    pub(crate) text: &'static str,
}

/// The placeholder for the schema in the text of a statement.
const SCHEMA_PLACEHOLDER: &str = "tidemill.";

impl Sql {
    /// The text for a schema.
    pub(crate) fn render(&self, schema: &str) -> String {
        self.text.replace(SCHEMA_PLACEHOLDER, &format!("\"{schema}\"."))
    }

    /// The function that is called, if the statement only calls one with its parameters. Any other
    /// statement is the body of a function of its own.
    pub(crate) fn called(&self) -> Option<&'static str> {
        let (_, call) = self.text.split_once(SCHEMA_PLACEHOLDER)?;
        call.split_once('(').map(|(name, _)| name)
    }

    /// The name of the function that runs this statement.
    pub(crate) fn function(&self) -> String {
        let installed = || self.function.map_or_else(|| self.name.replace('/', "_"), str::to_owned);
        self.called().map_or_else(installed, str::to_owned)
    }
}

/// The statement in a file below `sql/`, and the name of its function if that has another name.
macro_rules! sql {
    ($name:literal) => {
        Sql { name: $name, function: None, text: sql!(@text $name) }
    };
    ($name:literal, $function:literal) => {
        Sql { name: $name, function: Some($function), text: sql!(@text $name) }
    };
    (@text $name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}

/// Defines statements, and lists all of them in `STATEMENTS`.
macro_rules! statements {
    ($(pub(crate) static $constant:ident: Sql = sql!($($name:literal),+);)*) => {
        $(pub(crate) static $constant: Sql = sql!($($name),+);)*
        /// Every statement that a function in the schema runs.
        pub(crate) static STATEMENTS: &[&Sql] = &[$(&$constant),*];
    };
}

// Statements that are sent as they are written: before there are any functions, and by the baseline
// loop.
pub(crate) static SCHEMA_STATE: Sql = sql!("schema/state");
pub(crate) static VERSION: Sql = sql!("schema/version");
pub(crate) static BASELINE_ENQUEUE: Sql = sql!("baseline/enqueue");
pub(crate) static BASELINE_READ: Sql = sql!("baseline/read");
pub(crate) static BASELINE_CLAIM: Sql = sql!("baseline/claim");
pub(crate) static BASELINE_ACKNOWLEDGE: Sql = sql!("baseline/acknowledge");

statements! {
pub(crate) static INSERT: Sql = sql!("jobs/insert");
pub(crate) static ENQUEUE: Sql = sql!("jobs/enqueue");
pub(crate) static ENQUEUE_DEPENDENT: Sql = sql!("jobs/enqueue_dependent", "jobs_link");
pub(crate) static DELETE_EXPIRED_RECORDS: Sql = sql!("jobs/delete_expired_records", "jobs_forget");
pub(crate) static FIND_RECEIPT: Sql = sql!("jobs/find_receipt", "receipts_find");
pub(crate) static PRUNE_RECEIPTS: Sql = sql!("jobs/prune_receipts", "receipts_prune");
pub(crate) static CLAIM: Sql = sql!("jobs/claim");
pub(crate) static CANCEL: Sql = sql!("jobs/cancel");
pub(crate) static PURGE: Sql = sql!("queues/purge");
pub(crate) static PURGE_BLOCKED: Sql = sql!("queues/purge_blocked");
pub(crate) static NEWEST_SEQ: Sql = sql!("queues/newest_seq", "jobs_border");
pub(crate) static PROMOTE: Sql = sql!("jobs/promote");
pub(crate) static PRUNE: Sql = sql!("jobs/prune");
pub(crate) static GET_JOB: Sql = sql!("inspect/get_job", "jobs_get");
pub(crate) static LIST_JOBS_WAITING: Sql = sql!("inspect/list_jobs_waiting", "jobs_list_waiting");
pub(crate) static LIST_JOBS_BLOCKED: Sql = sql!("inspect/list_jobs_blocked", "jobs_list_blocked");
pub(crate) static LIST_JOBS_RUNNING: Sql = sql!("inspect/list_jobs_running", "jobs_list_running");
pub(crate) static LIST_JOBS_DEAD: Sql = sql!("inspect/list_jobs_dead", "letters_list");
pub(crate) static REDRIVE: Sql = sql!("jobs/redrive", "letters_redrive");
pub(crate) static DROP_DEAD: Sql = sql!("jobs/drop_dead");
pub(crate) static START: Sql = sql!("jobs/start", "leases_start");
pub(crate) static START_UNLOCKED: Sql = sql!("jobs/start_unlocked", "leases_start_free");
pub(crate) static EXTEND: Sql = sql!("jobs/extend", "leases_extend");
pub(crate) static LIST_EXPIRED: Sql = sql!("jobs/list_expired", "leases_expired");
pub(crate) static RECOVER: Sql = sql!("jobs/recover", "leases_recover");
pub(crate) static SHORTEN_LEASES: Sql = sql!("jobs/shorten_leases", "leases_shorten");
pub(crate) static ADVANCE_DUE: Sql = sql!("jobs/advance_due", "jobs_advance");
pub(crate) static FINISH: Sql = sql!("jobs/finish", "leases_finish");
pub(crate) static RECORD: Sql = sql!("jobs/record");
pub(crate) static REQUEUE: Sql = sql!("jobs/requeue", "leases_requeue");
pub(crate) static CONTINUE: Sql = sql!("chains/continue");
pub(crate) static DROP_CANCELLED: Sql = sql!("jobs/drop_cancelled");
pub(crate) static BURY: Sql = sql!("jobs/bury", "leases_bury");
pub(crate) static COMPLETE: Sql = sql!("jobs/complete", "chains_complete");
pub(crate) static COMPLETE_BY_CONTINUING: Sql = sql!("jobs/complete_by_continuing", "chains_complete_by_continuing");
pub(crate) static COMPLETE_BY_DELIVERING: Sql = sql!("jobs/complete_by_delivering", "chains_complete_by_delivering");
pub(crate) static DELETE_CHAIN: Sql = sql!("jobs/delete");
pub(crate) static RELEASE_OWED: Sql = sql!("chains/release_owed");
pub(crate) static SETTLE_RUNS: Sql = sql!("runs/settle_runs");
pub(crate) static START_RUN: Sql = sql!("runs/start_run");
pub(crate) static DELIVER: Sql = sql!("runs/deliver");
pub(crate) static TERMINATE: Sql = sql!("runs/terminate");
pub(crate) static READ_JOURNAL: Sql = sql!("runs/read_journal", "runs_journal");
pub(crate) static GET_RUN: Sql = sql!("runs/get_run", "runs_get");
pub(crate) static FIND_RUN: Sql = sql!("runs/find_run");
pub(crate) static LIST_RUNS: Sql = sql!("runs/list_runs", "runs_list");
pub(crate) static PRUNE_RUNS: Sql = sql!("runs/prune_runs");
pub(crate) static JOIN: Sql = sql!("fleet/join");
pub(crate) static BEAT: Sql = sql!("fleet/beat");
pub(crate) static PART: Sql = sql!("fleet/part");
pub(crate) static LEASE: Sql = sql!("fleet/lease");
pub(crate) static ATTACH: Sql = sql!("fleet/attach");
pub(crate) static RELEASE: Sql = sql!("fleet/release");
pub(crate) static CLOSE: Sql = sql!("fleet/close");
pub(crate) static DRAIN: Sql = sql!("fleet/drain");
pub(crate) static REAP: Sql = sql!("fleet/reap");
pub(crate) static GET_WORKER: Sql = sql!("fleet/get_worker", "fleet_member");
pub(crate) static LIST_WORKERS: Sql = sql!("fleet/list_workers", "fleet_members");
pub(crate) static LIST_WORKERS_BY_KIND: Sql = sql!("fleet/list_workers_by_kind", "fleet_members_of");
pub(crate) static GET_SESSION: Sql = sql!("fleet/get_session", "fleet_session");
pub(crate) static LIST_SESSIONS: Sql = sql!("fleet/list_sessions", "fleet_sessions");
pub(crate) static LIST_SESSIONS_BY_WORKER: Sql = sql!("fleet/list_sessions_by_worker", "fleet_sessions_of");
pub(crate) static LIST_WAITING: Sql = sql!("fleet/list_waiting", "fleet_lines");
pub(crate) static FIND_QUEUES: Sql = sql!("queues/find_queues", "queues_find");
pub(crate) static REGISTER_QUEUE: Sql = sql!("queues/register", "queues_make");
pub(crate) static PAUSE: Sql = sql!("queues/pause");
pub(crate) static LIST_QUEUES: Sql = sql!("queues/list_queues", "queues_list");
pub(crate) static RIGHTS: Sql = sql!("schema/rights");
pub(crate) static NOTIFY: Sql = sql!("wake/notify");
pub(crate) static SERVER: Sql = sql!("inspect/server", "checkup_server");
pub(crate) static HEALTH: Sql = sql!("inspect/health", "checkup_health");
pub(crate) static IDENTITY: Sql = sql!("inspect/identity", "checkup_identity");
}
