//! Rule: names of types, modules and files are distinct, and no retired word returns as one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::{files, retired_words};

/// Declarations of one type name in the workspace. A second one is tolerated for parallel modules,
/// such as the same concept in two stores.
const MAX_DECLARATIONS: usize = 2;

/// Type names that may be declared more often. Kept empty: give the type a specific name instead.
const ALLOWED_DOUBLES: [&str; 0] = [];

/// Names that may contain a retired word. Kept empty, like [`ALLOWED_DOUBLES`].
const ALLOWED_RETIRED: [&str; 0] = [];

const SOURCE_DIRS: [&str; 3] = ["crates", "xtask", "bench"];

/// The directory of the crate whose public type names are unique.
const CORE: &str = "crates/core/";

/// A type or module that a source file declares.
#[derive(Debug, PartialEq, Eq)]
struct Declaration {
    keyword: String,
    name: String,
    is_public: bool,
    line: usize,
}

/// Where a type is declared.
#[derive(Debug)]
struct Location {
    file: String,
    line: usize,
    is_public: bool,
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut types: BTreeMap<String, Vec<Location>> = BTreeMap::new();
    for path in source_files(root)? {
        let file = files::display_path(root, &path);
        problems.extend(retired_path(&file));
        for declaration in declarations(&files::read(&path)?) {
            let Declaration { keyword, name, is_public, line } = declaration;
            problems.extend(retired_name(&keyword, &name).map(|problem| format!("{file}:{line} {problem}")));
            if keyword != "mod" {
                types.entry(name).or_default().push(Location { file: file.clone(), line, is_public });
            }
        }
    }
    problems.extend(types.iter().filter_map(|(name, locations)| double(name, locations)));
    Ok(problems)
}

/// The Rust files in the `src` trees, and the scripts next to them.
fn source_files(root: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for directory in SOURCE_DIRS {
        for extension in ["rs", "lua", "sql"] {
            found.extend(files::list_with_extension(&root.join(directory), extension)?);
        }
    }
    found.retain(|path| {
        let is_source = path.components().any(|part| part.as_os_str() == "src");
        is_source || path.extension().is_some_and(|extension| extension != "rs")
    });
    Ok(found)
}

/// The types and modules that a Rust file declares.
fn declarations(source: &str) -> Vec<Declaration> {
    let lines = source.lines().enumerate();
    lines.filter_map(|(index, line)| declaration(line, index + 1)).collect()
}

fn declaration(line: &str, number: usize) -> Option<Declaration> {
    let code = line.trim_start();
    let (is_public, code) = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with(' ') => (true, rest.trim_start()),
        Some(rest) if rest.starts_with('(') => (false, rest.split_once(')')?.1.trim_start()),
        _ => (false, code),
    };
    let (keyword, rest) = code.split_once(' ')?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let is_type = name.starts_with(|first: char| first.is_ascii_uppercase());
    let is_declaration = match keyword {
        "struct" | "enum" | "trait" | "union" => is_type,
        // An indented alias is an associated type, which its trait names.
        "type" => is_type && !line.starts_with(' '),
        "mod" => !name.is_empty(),
        _ => false,
    };
    is_declaration.then(|| Declaration { keyword: keyword.to_owned(), name, is_public, line: number })
}

/// The problem with a type name that is declared too often.
fn double(name: &str, locations: &[Location]) -> Option<String> {
    if ALLOWED_DOUBLES.contains(&name) {
        return None;
    }
    let in_core = |location: &&Location| location.file.starts_with(CORE);
    let core = locations.iter().filter(in_core).count();
    let is_public_in_core = locations.iter().filter(in_core).any(|location| location.is_public);
    let shown: Vec<_> =
        locations.iter().map(|Location { file, line, .. }| format!("{file}:{line}")).collect();
    if locations.len() > MAX_DECLARATIONS {
        return Some(format!("{} types are called `{name}`: {}", locations.len(), shown.join(", ")));
    }
    let is_double = is_public_in_core && core > 1;
    is_double.then(|| format!("core has a second type `{name}`: {}", shown.join(", ")))
}

fn retired_name(keyword: &str, name: &str) -> Option<String> {
    let word = retired_word_in(name)?;
    Some(format!("{keyword} `{name}` uses the retired word `{word}`"))
}

/// The problem with a file or directory whose name is a retired word.
fn retired_path(file: &str) -> Option<String> {
    let mut parts = file.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let word = parts.find_map(retired_word_in)?;
    Some(format!("{file} is named with the retired word `{word}`"))
}

/// The retired word that a name in camel case or snake case contains.
fn retired_word_in(name: &str) -> Option<&'static str> {
    if ALLOWED_RETIRED.contains(&name) {
        return None;
    }
    let words: BTreeSet<_> = split_words(name).into_iter().collect();
    retired_words::RETIRED.into_iter().find(|retired| words.contains(*retired))
}

/// `poll`, `permit` of `PollPermit`, `poll_permit` or `POLL_PERMIT`.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let begins = letter.is_ascii_uppercase() && was_lower;
        if begins || !letter.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locations(files: &[&str]) -> Vec<Location> {
        files.iter().map(|file| Location { file: (*file).to_owned(), line: 1, is_public: true }).collect()
    }

    #[test]
    fn declarations_of_types_and_modules_are_found() {
        let source = "pub struct Client<'a> {\n    pub(crate) enum Inner {}\n    type Output = u8;\ntype Boxed = u8;\n\
                      mod wake;\n// struct Comment\nlet kind = structure;";
        let found: Vec<_> =
            declarations(source).into_iter().map(|found| (found.name, found.is_public, found.line)).collect();
        let expected = [("Client", true, 1), ("Inner", false, 2), ("Boxed", false, 4), ("wake", false, 5)];
        assert_eq!(found, expected.map(|(name, public, line)| (name.to_owned(), public, line)));
    }

    #[test]
    fn a_name_is_declared_at_most_twice_and_once_in_core() {
        assert!(double("Batch", &locations(&["crates/redis/src/a.rs", "crates/sqlite/src/a.rs"])).is_none());
        let thrice = ["crates/redis/src/a.rs", "crates/sqlite/src/a.rs", "xtask/src/a.rs"];
        assert!(double("Batch", &locations(&thrice)).is_some());
        let both = ["crates/core/src/a.rs", "crates/core/src/b.rs"];
        assert!(double("Lease", &locations(&both)).is_some_and(|problem| problem.starts_with("core has")));
        assert!(double("Lease", &locations(&["crates/core/src/a.rs", "crates/redis/src/b.rs"])).is_none());
    }

    #[test]
    fn a_retired_word_is_found_in_either_case_but_not_inside_another_word() {
        let retired = retired_words::RETIRED[0];
        let camel = format!("Job{}{}", retired[..1].to_uppercase(), &retired[1..]);
        assert_eq!(retired_word_in(&camel), Some(retired));
        assert_eq!(retired_word_in(&format!("job_{retired}")), Some(retired));
        assert_eq!(retired_word_in(&format!("un{retired}ed")), None);
        assert!(retired_path(&format!("crates/core/src/{retired}.rs")).is_some());
    }

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(split_words("PollPermit"), ["poll", "permit"]);
        assert_eq!(split_words("poll_permit"), ["poll", "permit"]);
        assert_eq!(split_words("S3Client"), ["s3", "client"]);
    }
}
