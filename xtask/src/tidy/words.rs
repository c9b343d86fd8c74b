//! Rule: the project contains no path or identifier of the machine on which it was written.

use std::path::Path;

use anyhow::Result;

use super::files;

/// Split, so that this file does not contain them.
const FORBIDDEN_TEXTS: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/home", "/"),
    concat!("/tmp", "/wt"),
    concat!("/wo", "rk/"),
    concat!("session", "_01"),
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in files::list_files(root)? {
        // Files that are not text are skipped.
        let Ok(text) = files::read(&path) else { continue };
        let name = files::display_path(root, &path);
        problems.extend(found_in(&text).map(|(line, word)| format!("{name}:{line} mentions {word:?}")));
    }
    Ok(problems)
}

fn found_in(text: &str) -> impl Iterator<Item = (usize, &'static str)> + '_ {
    text.lines().enumerate().flat_map(|(index, line)| {
        let words = FORBIDDEN_TEXTS.into_iter().filter(move |word| line.contains(word));
        words.map(move |word| (index + 1, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found_with_its_line() {
        let text = format!("fine\nsee {}me/notes", FORBIDDEN_TEXTS[0]);
        assert_eq!(found_in(&text).collect::<Vec<_>>(), [(2, FORBIDDEN_TEXTS[0])]);
        assert_eq!(found_in("a root, some work and a home").count(), 0);
    }
}
