//! The functions in the store's schema, in the order in which they can be created.
//!
//! A verb that takes several statements is a function. Each statement in it sees what was committed
//! before that statement began, and the call is one round trip and one transaction. Migrating a
//! schema to a new version creates all functions again, so that a changed function needs no copy in
//! a migration.

macro_rules! function {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/functions/", $name, ".sql"))
    };
}

/// Every function, and last the settings of those that users may call.
pub(crate) const FUNCTIONS: [&str; 49] = [
    function!("told"),
    function!("splice"),
    function!("keep_of"),
    function!("chain_of"),
    function!("part_of"),
    function!("wakes"),
    function!("unblock"),
    function!("release"),
    function!("remove"),
    function!("await_chains"),
    function!("enqueue_jobs"),
    function!("record_jobs"),
    function!("continue_jobs"),
    function!("drop_cancelled"),
    function!("cancel_job"),
    function!("delete_chain"),
    function!("purge"),
    function!("drop_letters"),
    function!("seize"),
    function!("settle_job"),
    function!("complete_job"),
    function!("stamped"),
    function!("append_events"),
    function!("make_tasks"),
    function!("apply_effects"),
    function!("apply_commits"),
    function!("settle_runs"),
    function!("prune_runs"),
    function!("start_run"),
    function!("deliver_events"),
    function!("terminate_run"),
    function!("promote"),
    function!("list_runs"),
    function!("lock_fleet"),
    function!("places"),
    function!("sessions_ended"),
    function!("part_members"),
    function!("beat_members"),
    function!("join_members"),
    function!("choose_member"),
    function!("lease_member"),
    function!("attach_sessions"),
    function!("release_sessions"),
    function!("close_session"),
    function!("drain_member"),
    function!("reap_fleet"),
    function!("enqueue"),
    function!("complete"),
    function!("public"),
];
