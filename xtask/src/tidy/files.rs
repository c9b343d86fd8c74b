//! The files of the project: all that is not built or fetched.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const NOT_OURS: [&str; 3] = ["target", "node_modules", ".git"];

/// Every file below `directory`; none if it is not there.
pub(crate) fn below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return Ok(found) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if NOT_OURS.contains(&name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(below(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Those that end in `.extension`.
pub(crate) fn ending_in(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = below(directory)?;
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    Ok(files)
}

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A path as a reader of the project knows it.
pub(crate) fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}
