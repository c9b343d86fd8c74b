//! Room kept free beside the database, so that jobs that run can be settled when the disk is full.
//!
//! In SQLite even a delete writes: first to the log, later from the log to the file. So a file of our own takes
//! up some of the disk, and is deleted when there is nothing else left. Until it is back, no job is added.
//! All processes on one database share it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Twice what the log holds before it is copied into the database: room for the copy and for the log to grow.
const SIZE: usize = 8 << 20;

/// How often to try to get the room back: trying means filling the disk.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    failed: Option<Instant>,
}

impl Reserve {
    /// The reserve of the database at `path`.
    pub(crate) fn of(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-reserve");
        Self { path: name.into(), failed: None }
    }

    /// Makes sure that the room is taken; `false` if the disk does not have it.
    pub(crate) fn hold(&mut self) -> bool {
        let held = fs::metadata(&self.path).is_ok_and(|file| file.is_file() && file.len() == SIZE as u64);
        if held {
            return true;
        }
        if self.failed.is_some_and(|failed| failed.elapsed() < AGAIN) {
            return false;
        }
        let filled = fill(&self.path);
        if filled.is_err() {
            // What was written of it is of no use.
            let _ = fs::remove_file(&self.path);
        }
        self.failed = filled.is_err().then(Instant::now);
        self.failed.is_none()
    }

    /// Gives the room away, if there is any to give.
    pub(crate) fn release(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Noise, because some file systems take no room for zeros.
fn fill(path: &Path) -> io::Result<()> {
    let mut noise = vec![0; 64 << 10];
    fastrand::fill(&mut noise);
    let mut file = File::create(path)?;
    for _ in 0..SIZE / noise.len() {
        file.write_all(&noise)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_held_given_away_and_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::of(&folder.path().join("jobs.db"));
        let size = || fs::metadata(folder.path().join("jobs.db-reserve")).map(|file| file.len()).ok();
        assert!(reserve.hold() && reserve.hold());
        assert_eq!(size(), Some(SIZE as u64));
        reserve.release();
        reserve.release();
        assert_eq!(size(), None);
        assert!(reserve.hold());
    }

    #[test]
    fn room_that_is_not_there_is_not_held_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::of(&folder.path().join("missing/jobs.db"));
        assert!(!reserve.hold());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
