//! Words that have no place in the project: where it was written says nothing about what it does.

use std::path::Path;

use anyhow::Result;

use super::files;

/// Written in two parts, so that this file does not hold them.
const FORBIDDEN: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/home", "/"),
    concat!("/tmp", "/wt"),
    concat!("/wo", "rk/"),
    concat!("session", "_01"),
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for path in files::below(root)? {
        // A lock file holds nobody's words, and what is no text holds none.
        let Ok(text) = files::read(&path) else { continue };
        let name = files::shown(root, &path);
        complaints.extend(found_in(&text).map(|(line, word)| format!("{name}:{line} mentions {word:?}")));
    }
    Ok(complaints)
}

fn found_in(text: &str) -> impl Iterator<Item = (usize, &'static str)> + '_ {
    text.lines().enumerate().flat_map(|(index, line)| {
        let words = FORBIDDEN.into_iter().filter(move |word| line.contains(word));
        words.map(move |word| (index + 1, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found_with_its_line() {
        let text = format!("fine\nsee {}me/notes", FORBIDDEN[0]);
        assert_eq!(found_in(&text).collect::<Vec<_>>(), [(2, FORBIDDEN[0])]);
        assert_eq!(found_in("a root, some work and a home").count(), 0);
    }
}
