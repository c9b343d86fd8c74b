//! Rules: each verb of the store contract has a file at the same path in every store, and a script
//! opens with its contract.

use std::path::Path;

use anyhow::Result;

use super::files;

/// The nouns of the store contract: a trait in `crates/core/src/store`, and a directory in each
/// store.
pub(super) const NOUNS: [&str; 5] = ["jobs", "queues", "runs", "fleet", "inspect"];

const STORES: [&str; 3] = ["sqlite", "redis", "postgres"];

/// A method of the contract that calls the store.
#[derive(Debug, PartialEq, Eq)]
struct Verb {
    name: String,
    /// Whether a store need not implement it.
    has_default: bool,
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for noun in NOUNS {
        let verbs = verbs(&files::read(&root.join(format!("crates/core/src/store/{noun}.rs")))?);
        if verbs.is_empty() {
            problems.push(format!("the contract has no verbs of `{noun}`"));
        }
        for store in STORES {
            problems.extend(missing_files(&root.join("crates").join(store), noun, &verbs)?);
        }
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

/// The verbs of a noun.
pub(super) fn verb_names(root: &Path, noun: &str) -> Result<Vec<String>> {
    let source = files::read(&root.join(format!("crates/core/src/store/{noun}.rs")))?;
    Ok(verbs(&source).into_iter().map(|verb| verb.name).collect())
}

/// The asynchronous methods of the first trait in this source.
fn verbs(source: &str) -> Vec<Verb> {
    let body =
        source.lines().skip_while(|line| !line.starts_with("pub trait ")).take_while(|line| *line != "}");
    let mut verbs: Vec<Verb> = Vec::new();
    let mut in_signature = false;
    for line in body.skip(1) {
        if let Some(rest) = line.strip_prefix("    async fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
            verbs.push(Verb { name, has_default: false });
            in_signature = true;
        }
        if in_signature && line.ends_with('{') {
            verbs.last_mut().into_iter().for_each(|verb| verb.has_default = true);
        }
        in_signature &= !line.ends_with(['{', ';']);
    }
    verbs
}

/// The verbs of a noun for which a store has no `<noun>/<verb>.rs`.
fn missing_files(store: &Path, noun: &str, verbs: &[Verb]) -> Result<Vec<String>> {
    let directory = store.join("src").join(noun);
    let implementation = files::read(&directory.join("mod.rs"))?;
    let mut problems = Vec::new();
    for verb in verbs {
        let is_implemented = implementation.contains(&format!("    async fn {}(", verb.name));
        let file = directory.join(format!("{}.rs", verb.name));
        if !is_implemented && !verb.has_default {
            problems.push(format!(
                "{} does not implement `{}`",
                directory.join("mod.rs").display(),
                verb.name
            ));
        } else if is_implemented && !file.is_file() {
            problems.push(format!("the verb `{}` has no file {}", verb.name, file.display()));
        }
    }
    Ok(problems)
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
    fn the_verbs_of_a_trait_are_its_asynchronous_methods() {
        let source = "pub trait Jobs: Send {\n    /// Claims.\n    async fn claim(\n        &self,\n    ) -> u8;\n\n    \
                      fn clock(&self) -> u8;\n\n    async fn leave(&self) -> u8 {\n        0\n    }\n}\n\n\
                      pub trait Other {\n    async fn other(&self);\n}\n";
        let verb = |name: &str, has_default| Verb { name: name.to_owned(), has_default };
        assert_eq!(verbs(source), [verb("claim", false), verb("leave", true)]);
    }

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
