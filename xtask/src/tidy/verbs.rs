//! Rule: a verb has the same name in every store, and a script opens with its contract.

use std::path::Path;

use anyhow::Result;

use super::files;

/// Verbs for which each store has a file in SQL, Lua or Rust.
const VERBS: [&str; 6] = ["enqueue", "claim", "settle", "cancel", "redrive", "pause"];

const STORES: [&str; 3] = ["sqlite", "redis", "postgres"];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for store in STORES {
        problems.extend(missing_verbs(&root.join("crates").join(store))?);
    }
    for script in files::list_with_extension(&root.join("crates/redis/lua"), "lua")? {
        let text = files::read(&script)?;
        let name = files::display_path(root, &script);
        // A shared library has no keys of its own.
        let is_shared = script.ends_with("lua/lib/queue.lua");
        problems.extend(contract_problem(&text, is_shared).map(|problem| format!("{name} {problem}")));
    }
    for statement in files::list_with_extension(&root.join("crates"), "sql")? {
        if !files::read(&statement)?.trim_start().starts_with("--") {
            problems.push(format!("{} does not open with a comment", files::display_path(root, &statement)));
        }
    }
    Ok(problems)
}

fn missing_verbs(store: &Path) -> Result<Vec<String>> {
    let mut files = files::list_files(&store.join("sql"))?;
    files.extend(files::list_files(&store.join("lua"))?);
    files.extend(files::list_files(&store.join("src/jobs"))?);
    let has = |verb: &str| files.iter().any(|path| path.file_stem().is_some_and(|stem| stem == verb));
    let missing = VERBS.iter().filter(|verb| !has(verb));
    Ok(missing.map(|verb| format!("{} has no file for the verb `{verb}`", store.display())).collect())
}

/// The problem with the opening comment of a script.
fn contract_problem(script: &str, is_shared: bool) -> Option<&'static str> {
    let is_comment = |line: &&str| line.starts_with("--") || line.starts_with("#!");
    let contract: String = script.lines().take_while(is_comment).collect();
    if contract.is_empty() {
        return Some("does not open with its contract");
    }
    let uses = |name: &str| script.contains(&format!("{name}[")) && !contract.contains(name);
    if is_shared {
        None
    } else if uses("KEYS") {
        Some("does not say what its KEYS are")
    } else if uses("ARGV") {
        Some("does not say what its ARGV are")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_what_it_is_given() {
        let body = "redis.call('DEL', KEYS[1], ARGV[1])";
        let problem = |contract: &str| contract_problem(&format!("{contract}{body}"), false);
        assert_eq!(problem(""), Some("does not open with its contract"));
        assert_eq!(problem("-- Deletes.\n"), Some("does not say what its KEYS are"));
        assert_eq!(problem("-- Deletes.\n-- KEYS: a key\n"), Some("does not say what its ARGV are"));
        assert_eq!(problem("-- Deletes.\n-- KEYS: a key\n-- ARGV: another\n"), None);
    }
}
