//! Rule: a public asynchronous function that users call documents its errors and what a dropped call
//! leaves behind.

use std::path::Path;

use anyhow::Result;

use super::files;

/// Where the functions are that users call.
const PUBLIC_SURFACE: [&str; 5] = [
    "crates/core/src/client",
    "crates/worker/src",
    "crates/workflow/src",
    "crates/fleet/src",
    "crates/tidemill/src",
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for directory in PUBLIC_SURFACE {
        for file in files::list_with_extension(&root.join(directory), "rs")? {
            let name = files::display_path(root, &file);
            problems.extend(missing(&files::read(&file)?).into_iter().map(|text| format!("{name}: {text}")));
        }
    }
    Ok(problems)
}

/// The public asynchronous functions of this source that lack a section, and which.
fn missing(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]").collect();
    let (mut docs, mut problems) = (Vec::new(), Vec::new());
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with("///") || line.starts_with("#[") {
            docs.push(*line);
            continue;
        }
        let docs = std::mem::take(&mut docs);
        let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
        if docs.contains(&"#[doc(hidden)]") {
            continue;
        }
        let end = lines[index..].iter().position(|line| line.ends_with('{')).unwrap_or(0);
        let can_fail = lines[index..=index + end].iter().any(|line| line.contains("-> Result<"));
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        for (section, is_needed) in [("/// # Errors", can_fail), ("/// # Cancel safety", true)] {
            if is_needed && !docs.contains(&section) {
                let section = section.trim_start_matches("/// # ");
                problems.push(format!("`{name}` does not document `# {section}`"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_asynchronous_function_has_its_sections() {
        let complete = "/// # Errors\n/// # Cancel safety\npub async fn a() -> Result<(), E> {";
        let infallible = "/// # Cancel safety\npub async fn a() {";
        let hidden = "#[doc(hidden)]\npub async fn a() {";
        let private = "pub(crate) async fn a() -> Result<(), E> {";
        let in_test = "#[cfg(test)]\npub async fn a() {";
        for sound in [complete, infallible, hidden, private, in_test] {
            assert!(missing(sound).is_empty(), "{sound}");
        }
        let bare = "/// Waits.\npub async fn wait<T>(\n    &self,\n) -> Result<T, E> {";
        let expected = ["`wait` does not document `# Errors`", "`wait` does not document `# Cancel safety`"];
        assert_eq!(missing(bare), expected);
        let other = format!("{infallible}\n}}\n\n/// B.\npub async fn b() {{");
        assert_eq!(missing(&other), ["`b` does not document `# Cancel safety`"]);
    }
}
