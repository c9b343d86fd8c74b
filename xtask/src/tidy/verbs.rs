//! A verb has the same name in every store, and a script says what it does before it does it.

use std::path::Path;

use anyhow::Result;

use super::files;

/// The verbs each store has a file for, be it SQL, Lua or Rust.
const VERBS: [&str; 6] = ["enqueue", "claim", "settle", "cancel", "redrive", "pause"];

const STORES: [&str; 3] = ["sqlite", "redis", "postgres"];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for store in STORES {
        complaints.extend(missing_verbs(&root.join("crates").join(store))?);
    }
    for script in files::ending_in(&root.join("crates/redis/lua"), "lua")? {
        let text = files::read(&script)?;
        let name = files::shown(root, &script);
        // What is put before every script has no keys of its own.
        let is_shared = script.ends_with("lua/lib/queue.lua");
        complaints
            .extend(contract_complaint(&text, is_shared).map(|complaint| format!("{name} {complaint}")));
    }
    for statement in files::ending_in(&root.join("crates"), "sql")? {
        if !files::read(&statement)?.trim_start().starts_with("--") {
            complaints.push(format!("{} does not say why it is as it is", files::shown(root, &statement)));
        }
    }
    Ok(complaints)
}

fn missing_verbs(store: &Path) -> Result<Vec<String>> {
    let mut files = files::below(&store.join("sql"))?;
    files.extend(files::below(&store.join("lua"))?);
    files.extend(files::below(&store.join("src/jobs"))?);
    let has = |verb: &str| files.iter().any(|path| path.file_stem().is_some_and(|stem| stem == verb));
    let missing = VERBS.iter().filter(|verb| !has(verb));
    Ok(missing.map(|verb| format!("{} has no file for the verb `{verb}`", store.display())).collect())
}

/// What is wrong with the comment a script opens with.
fn contract_complaint(script: &str, is_shared: bool) -> Option<&'static str> {
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
        let complaint = |contract: &str| contract_complaint(&format!("{contract}{body}"), false);
        assert_eq!(complaint(""), Some("does not open with its contract"));
        assert_eq!(complaint("-- Deletes.\n"), Some("does not say what its KEYS are"));
        assert_eq!(complaint("-- Deletes.\n-- KEYS: a key\n"), Some("does not say what its ARGV are"));
        assert_eq!(complaint("-- Deletes.\n-- KEYS: a key\n-- ARGV: another\n"), None);
    }
}
