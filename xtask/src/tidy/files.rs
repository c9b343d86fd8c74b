//! The files of the project, without build output and fetched packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const SKIPPED_DIRS: [&str; 3] = ["target", "node_modules", ".git"];

/// All files in `directory` and below; none if it does not exist.
pub(crate) fn list_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return Ok(found) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if SKIPPED_DIRS.contains(&name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(list_files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// All files with this extension.
pub(crate) fn list_with_extension(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = list_files(directory)?;
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    Ok(files)
}

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The path relative to the root.
pub(crate) fn display_path(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}
