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

#[cfg(test)]
mod tests {
    use super::FUNCTIONS;
    use crate::migrate::latest;
    use crate::sql::STATEMENTS;

    /// The functions of the latest schema version: the version, and the hash of all of them.
    const INSTALLED: (usize, u64) = (5, 0xc994_916a_862f_f0ae);

    /// Functions are replaced only when the schema version rises. A change without a new version
    /// would reach new schemas only.
    #[test]
    fn functions_change_only_with_the_schema_version() {
        let statements = STATEMENTS.iter().flat_map(|sql| [sql.name, sql.text]);
        let hash = hash(FUNCTIONS.into_iter().chain(statements));
        let advice = "add a migration that drops changed signatures, and write the new pair here";
        assert_eq!((latest(), hash), INSTALLED, "{advice}");
    }

    /// FNV-1a of the words without comments, so that prose and layout may change.
    fn hash<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
        let lines = texts.flat_map(str::lines).map(|line| line.split("--").next().unwrap_or_default());
        let words = lines.flat_map(str::split_whitespace);
        let bytes = words.flat_map(|word| word.bytes().chain([b' ']));
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    #[test]
    fn a_comment_does_not_change_the_hash() {
        assert_eq!(hash(["-- Why.\nSELECT  1 -- one"].into_iter()), hash(["SELECT\n1"].into_iter()));
        assert_ne!(hash(["SELECT 1"].into_iter()), hash(["SELECT 2"].into_iter()));
    }
}
