//! `cargo xtask build-time`: what the first command of the README costs on a fresh clone.
//!
//! The figure is CPU time: unlike elapsed time, it hardly depends on the number of cores and on what
//! else runs.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell;

/// The length of a clock tick in `/proc`: 1/100 s for all programs on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Builds the binary from an empty target directory and prints the time.
pub(crate) fn run() -> Result<()> {
    let target = shell::root().join("target/build-time");
    remove(&target)?;
    let (started, ticks_before) = (Instant::now(), child_ticks()?);
    let mut build = shell::cargo(&["build", "--release", "--quiet", "--package", "tidemill-cli"]);
    shell::run(build.env("CARGO_TARGET_DIR", &target))?;
    let cpu_seconds = (child_ticks()? - ticks_before) / TICKS_PER_SECOND;
    println!("release build: {cpu_seconds} CPU seconds, {} s elapsed", started.elapsed().as_secs());
    remove(&target)
}

fn remove(target: &std::path::Path) -> Result<()> {
    match std::fs::remove_dir_all(target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", target.display()))
        }
        _ => Ok(()),
    }
}

/// The user and system time of all programs that this one has run and waited for.
fn child_ticks() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read the time of a build")?;
    parse_child_ticks(&stat).context("/proc/self/stat has another format")
}

/// `cutime` and `cstime` are the fields 16 and 17. The name of the program, field 2, may contain
/// spaces and parentheses.
fn parse_child_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(13);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_read_behind_any_name() {
        let stat = "4242 (x) tasks (y)) S 1 2 3 4 5 6 7 8 9 10 11 12 700 55 20 0 1 0 100\n";
        assert_eq!(parse_child_ticks(stat), Some(755));
        assert_eq!(parse_child_ticks("1 (x) S 1 2"), None);
        assert!(child_ticks().is_ok());
    }
}
