//! Disk space reserved beside the database, so that running jobs can be settled when the disk is
//! full.
//!
//! In SQLite even a delete writes: first to the log, later from the log to the file. So a reserve
//! file occupies some disk space and is deleted when no other space is left. Until it exists again,
//! no job is added. All processes on one database share it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Twice the size at which the log is checkpointed: space for the checkpoint and for the log to
/// grow.
const RESERVE_BYTES: usize = 8 << 20;

/// How often to try to create the reserve again after a failure: an attempt fills the disk.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct DiskReserve {
    path: PathBuf,
    last_failure: Option<Instant>,
}

impl DiskReserve {
    /// The reserve of the database at `path`.
    pub(crate) fn for_database(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-reserve");
        Self { path: name.into(), last_failure: None }
    }

    /// Creates the reserve file if it does not exist. Returns `false` if the disk has no space for
    /// it.
    pub(crate) fn ensure(&mut self) -> bool {
        let exists =
            fs::metadata(&self.path).is_ok_and(|file| file.is_file() && file.len() == RESERVE_BYTES as u64);
        if exists {
            return true;
        }
        if self.last_failure.is_some_and(|failed| failed.elapsed() < RETRY_INTERVAL) {
            return false;
        }
        let filled = fill(&self.path);
        if filled.is_err() {
            // A partial file is of no use.
            let _ = fs::remove_file(&self.path);
        }
        self.last_failure = filled.is_err().then(Instant::now);
        self.last_failure.is_none()
    }

    /// Deletes the reserve file, if there is one.
    pub(crate) fn release(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Fills the file with random bytes, because some file systems allocate no space for zeros.
fn fill(path: &Path) -> io::Result<()> {
    let mut noise = vec![0; 64 << 10];
    fastrand::fill(&mut noise);
    let mut file = File::create(path)?;
    for _ in 0..RESERVE_BYTES / noise.len() {
        file.write_all(&noise)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_created_released_and_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = DiskReserve::for_database(&folder.path().join("jobs.db"));
        let size = || fs::metadata(folder.path().join("jobs.db-reserve")).map(|file| file.len()).ok();
        assert!(reserve.ensure() && reserve.ensure());
        assert_eq!(size(), Some(RESERVE_BYTES as u64));
        reserve.release();
        reserve.release();
        assert_eq!(size(), None);
        assert!(reserve.ensure());
    }

    #[test]
    fn a_reserve_that_cannot_be_created_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = DiskReserve::for_database(&folder.path().join("missing/jobs.db"));
        assert!(!reserve.ensure());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
