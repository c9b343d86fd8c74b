//! Rules: a statement or script has the name of the verb that it serves, and no PostgreSQL function
//! has more than eight parameters.

use std::path::Path;

use anyhow::Result;

use super::files;
use super::verbs::{NOUNS, verb_names};

/// Where the statements and scripts of a store are, by noun.
const STATEMENTS: [(&str, &str); 3] =
    [("crates/sqlite/sql", "sql"), ("crates/postgres/sql", "sql"), ("crates/redis/lua", "lua")];

/// How many parameters a function may have. Rows with more columns are row types.
const MAX_PARAMETERS: usize = 8;

/// Functions and statements with more parameters, and why.
const LONG: [(&str, &str); 3] = [
    ("enqueue", "documented for users, who name the parameters"),
    ("enqueue_jobs", "documented for drivers, which need no types of the schema to send arrays"),
    ("jobs/enqueue_dependent", "the parameters of enqueue_jobs, and the receipt"),
];

/// Statements and scripts with names of their own, and the verb that each is a part of.
const PARTS: [(&str, &str); 38] = [
    ("inspect/health", "checkup"),
    ("inspect/identity", "the check of the `listen` URL"),
    ("inspect/server", "checkup"),
    ("jobs/advance_due", "adjust_for_clock_step"),
    ("jobs/shorten_leases", "adjust_for_clock_step"),
    ("jobs/bury", "settle"),
    ("jobs/drop_cancelled", "settle"),
    ("jobs/finish", "settle"),
    ("jobs/record", "settle"),
    ("jobs/requeue", "settle"),
    ("jobs/rescue", "settle"),
    ("jobs/find_receipt", "enqueue"),
    ("jobs/insert", "enqueue"),
    ("jobs/keep_added", "enqueue"),
    ("jobs/untracked", "enqueue"),
    ("jobs/lock", "claim"),
    ("jobs/pop", "claim"),
    ("jobs/prepare", "claim"),
    ("jobs/unpop", "claim"),
    ("jobs/unstart", "start"),
    ("jobs/stream_position", "get_job"),
    ("jobs/overdue", "list_expired"),
    ("jobs/sweep_pops", "list_expired"),
    ("jobs/forget_orphans", "prune"),
    ("jobs/forget_untracked", "prune"),
    ("jobs/orphans", "prune"),
    ("jobs/repair", "prune"),
    ("queues/begin_purge", "purge"),
    ("queues/newest_seq", "purge"),
    ("queues/count", "list_queues"),
    ("queues/find_queues", "register"),
    ("runs/apply_effects", "settle"),
    ("runs/commit", "settle"),
    ("runs/settle_runs", "settle"),
    ("runs/stage_effects", "settle"),
    ("runs/complete_activity", "complete"),
    ("runs/fire_timers", "promote"),
    ("runs/stage_journal", "start_run"),
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for noun in NOUNS {
        let verbs = verb_names(root, noun)?;
        for (directory, extension) in STATEMENTS {
            for file in files::list_with_extension(&root.join(directory).join(noun), extension)? {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                if !serves_a_verb(noun, &stem, &verbs) {
                    let name = files::display_path(root, &file);
                    problems.push(format!("{name} is not named after a verb of `{noun}`, or a part of one"));
                }
            }
        }
    }
    let exists = |part: &str| {
        STATEMENTS
            .iter()
            .any(|(directory, extension)| root.join(directory).join(part).with_extension(extension).is_file())
    };
    let stale = PARTS.iter().filter(|(part, _)| !exists(part));
    problems
        .extend(stale.map(|(part, _)| format!("no store has the part `{part}`: remove it from the list")));
    for file in files::list_with_extension(&root.join("crates/postgres/sql"), "sql")? {
        let (text, name) = (files::read(&file)?, files::display_path(root, &file));
        let statement = name.trim_start_matches("crates/postgres/sql/").trim_end_matches(".sql");
        let numbered = (statement.to_owned(), count_numbered(&text));
        for (function, parameters) in functions(&text).into_iter().chain([numbered]) {
            if parameters > MAX_PARAMETERS && !LONG.iter().any(|(long, _)| *long == function) {
                problems.push(format!("{name}: `{function}` has {parameters} parameters; use a row type"));
            }
        }
    }
    Ok(problems)
}

/// Whether the stem of a file is a verb, a verb and a variant of it, or a known part of a verb.
fn serves_a_verb(noun: &str, stem: &str, verbs: &[String]) -> bool {
    let is_variant =
        |verb: &String| stem.strip_prefix(verb.as_str()).is_some_and(|rest| rest.starts_with('_'));
    let is_part = || PARTS.iter().any(|(part, _)| part.split_once('/') == Some((noun, stem)));
    verbs.iter().any(|verb| verb == stem || is_variant(verb)) || is_part()
}

/// The functions that a text creates, with the number of their input parameters.
fn functions(text: &str) -> Vec<(String, usize)> {
    let signatures = text.split("CREATE OR REPLACE FUNCTION ").skip(1);
    let signature = |text: &str| {
        let (name, rest) = text.split_once('(')?;
        let parameters = rest.split_once(')')?.0.split(',').map(str::trim);
        Some((name.to_owned(), parameters.filter(|one| !one.is_empty() && !one.starts_with("OUT ")).count()))
    };
    signatures.filter_map(signature).collect()
}

/// How many numbered parameters a statement has.
fn count_numbered(text: &str) -> usize {
    let code = text.lines().filter(|line| !line.starts_with("--"));
    let numbers = code.flat_map(|line| line.split('$').skip(1)).filter_map(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..digits)?.parse().ok()
    });
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_a_verb_or_a_variant_or_a_part_of_one() {
        let verbs = ["list_jobs".to_owned()];
        assert!(serves_a_verb("inspect", "list_jobs", &verbs));
        assert!(serves_a_verb("inspect", "list_jobs_dead", &verbs));
        assert!(serves_a_verb("inspect", "health", &verbs));
        assert!(!serves_a_verb("inspect", "list_jobsdead", &verbs));
        assert!(!serves_a_verb("jobs", "health", &verbs));
    }

    #[test]
    fn the_parameters_of_functions_and_statements_are_counted() {
        let text = "-- Adds.\nCREATE OR REPLACE FUNCTION add(one text,\n    two text[] DEFAULT '{}', OUT sum text)\n\
                    CREATE OR REPLACE FUNCTION none() RETURNS void";
        assert_eq!(functions(text), [("add".to_owned(), 2), ("none".to_owned(), 0)]);
        assert_eq!(count_numbered("-- $9 unused\nSELECT $1, add($12, $2)"), 12);
        assert_eq!(count_numbered("DO $$ BEGIN END $$"), 0);
    }
}
