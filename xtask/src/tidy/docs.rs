//! Rule: documents match the code.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::files;

/// Maximum length of an ADR. A longer one should be two.
const MAX_ADR_LINES: usize = 80;

const REQUIRED_FILES: [&str; 11] = [
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
    let missing = REQUIRED_FILES.iter().filter(|name| !root.join(name).exists());
    let mut problems: Vec<_> = missing.map(|name| format!("{name} is missing")).collect();
    for decision in files::list_with_extension(&root.join("docs/adr"), "md")? {
        let lines = files::read(&decision)?.lines().count();
        if lines > MAX_ADR_LINES {
            problems.push(format!(
                "{} has {lines} lines: a page has {MAX_ADR_LINES}",
                files::display_path(root, &decision)
            ));
        }
    }
    let schema = root.join("docs/redis-schema.md");
    if schema.exists() {
        let (keys, schema) =
            (files::read(&root.join("crates/redis/src/connection/keys.rs"))?, files::read(&schema)?);
        let undocumented =
            key_words(&keys).difference(&documented_words(&schema)).cloned().collect::<Vec<_>>();
        let problem = |word: &String| format!("docs/redis-schema.md does not mention the key part `{word}`");
        problems.extend(undocumented.iter().map(problem));
    }
    Ok(problems)
}

/// The fixed words of all keys in `keys.rs`: its string literals without their placeholders.
fn key_words(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    // Single letters are parts of values, not of keys.
    literals.flat_map(words).filter(|word| word.len() > 1).collect()
}

/// The words inside `code spans` of a document.
fn documented_words(schema: &str) -> BTreeSet<String> {
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
        let keys = key_words(source);
        assert_eq!(keys.iter().collect::<Vec<_>>(), ["dlq", "lock"]);
        let schema = documented_words("`queue:{queue}:lock:{job_id}` is a lock, not a dlq");
        assert_eq!(keys.difference(&schema).collect::<Vec<_>>(), ["dlq"]);
    }
}
