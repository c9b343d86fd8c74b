//! Documents that have to keep up with the code.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::files;

/// A decision that does not fit on a page is two decisions.
const PAGE: usize = 80;

const WANTED: [&str; 11] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "deny.toml",
    "docs/guide.md",
    "docs/redis-schema.md",
    "docs/roadmap.md",
    "docs/adr",
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let missing = WANTED.iter().filter(|name| !root.join(name).exists());
    let mut complaints: Vec<_> = missing.map(|name| format!("{name} is missing")).collect();
    for decision in files::ending_in(&root.join("docs/adr"), "md")? {
        let lines = files::read(&decision)?.lines().count();
        if lines > PAGE {
            complaints
                .push(format!("{} has {lines} lines: a page has {PAGE}", files::shown(root, &decision)));
        }
    }
    let schema = root.join("docs/redis-schema.md");
    if schema.exists() {
        let (keys, schema) =
            (files::read(&root.join("crates/redis/src/connection/keys.rs"))?, files::read(&schema)?);
        let undocumented = words_of_keys(&keys).difference(&documented(&schema)).cloned().collect::<Vec<_>>();
        let complaint =
            |word: &String| format!("docs/redis-schema.md does not mention the key part `{word}`");
        complaints.extend(undocumented.iter().map(complaint));
    }
    Ok(complaints)
}

/// The fixed words in every key that `keys.rs` makes: its string literals without their placeholders.
fn words_of_keys(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    // One letter stands for a delivery inside values, not in a key.
    literals.flat_map(words).filter(|word| word.len() > 1).collect()
}

/// The words inside `code spans` of a document.
fn documented(schema: &str) -> BTreeSet<String> {
    schema.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).flat_map(words).collect()
}

/// `lock` of `lock:{job}`.
fn words(text: &str) -> Vec<String> {
    let mut depth = 0;
    let fixed: String = text
        .chars()
        .map(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth == 0 && c.is_ascii_alphanumeric() { c } else { ' ' }
        })
        .collect();
    fixed.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_documented_is_found() {
        let source = "/// `of`\nformat!(\"{}lock:{job}\"); part(\"dlq\"); \"s\"\n#[cfg(test)] \"test\"";
        let keys = words_of_keys(source);
        assert_eq!(keys.iter().collect::<Vec<_>>(), ["dlq", "lock"]);
        let schema = documented("`queue:{queue}:lock:{job_id}` is a lock, not a dlq");
        assert_eq!(keys.difference(&schema).collect::<Vec<_>>(), ["dlq"]);
    }
}
