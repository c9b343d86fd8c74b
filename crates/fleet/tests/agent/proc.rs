//! Looks at the processes of this machine.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The processes that were started with a directory below `root` for themselves, other than the
/// dead.
pub(crate) fn living_off(root: &Path) -> Vec<i32> {
    let root = root.display().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| is_alive(*pid) && mentions(*pid, &root)).collect()
}

fn mentions(pid: i32, root: &str) -> bool {
    let has = |file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(root)
    };
    // The test process itself has it nowhere: it made the directory after it had started.
    has("environ") || has("cmdline")
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
