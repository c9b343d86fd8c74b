//! Where an agent's browsers have their directories: one directory for all, which goes when the agent goes.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{debug, info};

use super::warden::Warden;

/// How the directories of all agents begin.
const PREFIX: &str = "tidemill-browsers-";

/// Its owner holds a lock on it for as long as it lives. Locks end with their holder and are the same in every
/// container that shares the directory; the numbers of processes are not.
const LOCK: &str = "lock";

/// A directory without a lock is one that somebody is making, or one whose maker died over it.
const NEWBORN: Duration = Duration::from_secs(600);

/// How often to try to remove a directory, and how long to wait in between. What is left then goes with the agent.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The directory of one agent.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    /// Ends what is left of this agent if it dies, and removes the directory in any case.
    pub(super) warden: Warden,
    /// Held, never read.
    _lock: File,
}

impl Place {
    /// Makes a directory under `parent`, and removes those of agents that are dead.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        // A name that nobody has or can guess, so that the warden is there before the directory is.
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), fastrand::u64(..));
        let root = parent.join(name);
        let warden = Warden::new(&root)?;
        fs::DirBuilder::new().mode(0o700).create(&root)?;
        let lock = lock(&root)?;
        Ok(Self { root, warden, _lock: lock })
    }

    /// The directory of one browser.
    pub(super) fn room(&self, number: u64) -> PathBuf {
        self.root.join(number.to_string())
    }

    /// Removes the directory of one browser. Whoever is dying may still write to it, so it may take a few tries.
    pub(super) async fn vacate(&self, number: u64) {
        let room = self.room(number);
        for _ in 0..TRIES {
            match tokio::fs::remove_dir_all(&room).await {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(error) => debug!("cannot remove {} yet: {error}", room.display()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Removes everything, now. Blocks.
    pub(super) fn clear(&self) -> io::Result<()> {
        self.warden.dismiss()
    }
}

/// The lock appears under its name when it is already held, so that nobody takes a new directory for a dead one.
fn lock(root: &Path) -> io::Result<File> {
    let unnamed = root.join("lock.new");
    let lock = File::create_new(&unnamed)?;
    lock.lock()?;
    fs::rename(unnamed, root.join(LOCK))?;
    Ok(lock)
}

/// Removes the directories of agents that died together with their wardens.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let path = entry.path();
        if !path.is_symlink() && is_deserted(&path) {
            match fs::remove_dir_all(&path) {
                Ok(()) => info!("removed {}, which a dead agent had left", path.display()),
                // Its warden may be doing the same.
                Err(error) => debug!("cannot remove {}: {error}", path.display()),
            }
        }
    }
}

fn is_deserted(root: &Path) -> bool {
    match File::open(root.join(LOCK)) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock | TryLockError::Error(_))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => is_old(root),
        // It is another user's, and that user's to remove.
        Err(_) => false,
    }
}

fn is_old(root: &Path) -> bool {
    let modified = fs::metadata(root).and_then(|about| about.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > NEWBORN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_the_directory_of_a_dead_agent_and_leaves_that_of_a_live_one() {
        let parent = tempfile::tempdir().unwrap();
        let live = Place::new(parent.path()).unwrap();
        let dead = parent.path().join(format!("{PREFIX}1-dead"));
        let newborn = parent.path().join(format!("{PREFIX}1-newborn"));
        fs::create_dir_all(dead.join("1/profile")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::create_dir(&newborn).unwrap();
        sweep(parent.path());
        assert!(!dead.exists() && live.root.exists() && newborn.exists());
    }

    #[test]
    fn a_cleared_place_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::new(parent.path()).unwrap();
        let room = place.room(1);
        fs::create_dir(&room).unwrap();
        fs::write(room.join("file"), "content").unwrap();
        place.clear().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
