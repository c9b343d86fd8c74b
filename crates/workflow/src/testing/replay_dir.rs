//! `replay_dir`: journals in files as regression tests of a workflow.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use tidemill_core::workflow::Journal;

use super::replay_prefixes::{program_of, replay_whole};
use crate::program::Programs;

/// Journals that the current code diverges from, or that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayFailed {
    /// The files, with the error of each.
    pub files: Vec<(PathBuf, String)>,
}

impl std::error::Error for ReplayFailed {}

impl fmt::Display for ReplayFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} journals cannot be replayed", self.files.len())?;
        self.files.iter().try_for_each(|(path, error)| write!(f, "\n{}: {error}", path.display()))
    }
}

/// Replays exported journals against `programs`: `journals/*.json`. One `*` in the file name
/// matches any text. Returns the number of files. No file is an error, because such a test checks
/// nothing.
pub fn replay_dir(pattern: impl AsRef<Path>, programs: &Programs) -> Result<usize, ReplayFailed> {
    let pattern = pattern.as_ref();
    let one = |error: String| ReplayFailed { files: vec![(pattern.to_owned(), error)] };
    let paths = matching_files(pattern).map_err(|error| one(error.to_string()))?;
    if paths.is_empty() {
        return Err(one("there is no such file".into()));
    }
    let failed = |path: &PathBuf| Some((path.clone(), replay_file(path, programs).err()?));
    let files: Vec<_> = paths.iter().filter_map(failed).collect();
    if files.is_empty() { Ok(paths.len()) } else { Err(ReplayFailed { files }) }
}

fn replay_file(path: &Path, programs: &Programs) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let journal: Journal = serde_json::from_str(&text).map_err(|error| format!("not a journal: {error}"))?;
    let program = program_of(programs, &journal).map_err(|error| error.to_string())?;
    replay_whole(program, &journal).map_err(|error| error.to_string())
}

/// The files that match a pattern, sorted.
fn matching_files(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
    let name = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((begin, end)) = name.split_once('*') else {
        return Ok(if pattern.is_file() { vec![pattern.to_owned()] } else { Vec::new() });
    };
    let directory = pattern.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory.unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
