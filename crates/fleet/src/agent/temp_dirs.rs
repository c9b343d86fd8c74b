//! The directory tree of an agent's browsers: one root, removed with the agent.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{debug, info};

use super::orphan_killer::OrphanKiller;

/// The prefix of every agent's root directory.
const DIR_PREFIX: &str = "tidemill-browsers-";

/// The owner holds a lock on this file while it lives. Unlike process ids, file locks end with
/// their holder and are valid in every container that shares the directory.
const LOCK_FILE: &str = "lock";

/// How old a directory without a lock file must be before it is removed. A younger one may be in
/// creation by another agent.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// How often to try to remove a browser's directory, and the delay between tries. What is left is
/// removed with the root.
const MAX_REMOVE_ATTEMPTS: usize = 20;
const REMOVE_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The directory tree of one agent.
#[derive(Debug)]
pub(super) struct TempDirs {
    root: PathBuf,
    /// Kills this agent's browsers if it dies, and removes the root in any case.
    pub(super) orphan_killer: OrphanKiller,
    /// Held, never read.
    _lock: File,
}

impl TempDirs {
    /// Creates a root under `parent`, and removes the roots of dead agents.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        // The name is unguessable and unique, so the orphan killer can start before the directory
        // exists.
        let name = format!("{DIR_PREFIX}{}-{:016x}", std::process::id(), fastrand::u64(..));
        let root = parent.join(name);
        let orphan_killer = OrphanKiller::new(&root)?;
        fs::DirBuilder::new().mode(0o700).create(&root)?;
        let lock = lock(&root)?;
        Ok(Self { root, orphan_killer, _lock: lock })
    }

    /// The directory of one browser.
    pub(super) fn browser_dir(&self, number: u64) -> PathBuf {
        self.root.join(number.to_string())
    }

    /// Removes the directory of one browser. A dying process may still write to it, so this may
    /// take several tries.
    pub(super) async fn remove_browser_dir(&self, number: u64) {
        let room = self.browser_dir(number);
        for _ in 0..MAX_REMOVE_ATTEMPTS {
            match tokio::fs::remove_dir_all(&room).await {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(error) => debug!("cannot remove {} yet: {error}", room.display()),
            }
            tokio::time::sleep(REMOVE_RETRY_DELAY).await;
        }
    }

    /// Removes everything now. Blocks.
    pub(super) fn remove_all(&self) -> io::Result<()> {
        self.orphan_killer.finish()
    }
}

/// The lock is taken before the file gets its name, so nobody mistakes a new directory for an
/// abandoned one.
fn lock(root: &Path) -> io::Result<File> {
    let temporary = root.join("lock.new");
    let lock = File::create_new(&temporary)?;
    lock.lock()?;
    fs::rename(temporary, root.join(LOCK_FILE))?;
    Ok(lock)
}

/// Removes the roots of agents that died together with their orphan killers.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(DIR_PREFIX)) {
        let path = entry.path();
        if !path.is_symlink() && is_abandoned(&path) {
            match fs::remove_dir_all(&path) {
                Ok(()) => info!("removed {}, which a dead agent had left", path.display()),
                // The agent's orphan killer may be removing it too.
                Err(error) => debug!("cannot remove {}: {error}", path.display()),
            }
        }
    }
}

fn is_abandoned(root: &Path) -> bool {
    match File::open(root.join(LOCK_FILE)) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock | TryLockError::Error(_))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => is_old(root),
        // It belongs to another user, who removes it.
        Err(_) => false,
    }
}

fn is_old(root: &Path) -> bool {
    let modified = fs::metadata(root).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_the_directory_of_a_dead_agent_and_leaves_that_of_a_live_one() {
        let parent = tempfile::tempdir().unwrap();
        let live = TempDirs::new(parent.path()).unwrap();
        let dead = parent.path().join(format!("{DIR_PREFIX}1-dead"));
        let newborn = parent.path().join(format!("{DIR_PREFIX}1-newborn"));
        fs::create_dir_all(dead.join("1/profile")).unwrap();
        fs::write(dead.join(LOCK_FILE), "").unwrap();
        fs::create_dir(&newborn).unwrap();
        remove_abandoned(parent.path());
        assert!(!dead.exists() && live.root.exists() && newborn.exists());
    }

    #[test]
    fn a_cleared_place_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let place = TempDirs::new(parent.path()).unwrap();
        let room = place.browser_dir(1);
        fs::create_dir(&room).unwrap();
        fs::write(room.join("file"), "content").unwrap();
        place.remove_all().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
