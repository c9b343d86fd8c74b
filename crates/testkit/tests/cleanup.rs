//! Nothing of a server remains when it is dropped, or when the test that started it is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidemill_testkit::servers::{Postgres, Redis};

#[test]
fn a_dropped_server_is_gone_with_its_directory() {
    let redis = Redis::start().unwrap();
    let directory = redis.directory().to_owned();
    assert!(directory.exists());
    drop(redis);
    assert!(!directory.exists());
}

#[test]
fn a_killed_test_leaves_no_server_behind() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "holds_servers_until_it_is_killed", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let directories: Vec<_> =
        lines.filter_map(|line| Some(line.strip_prefix("holds ")?.to_owned())).take(3).collect();
    assert!(directories.iter().all(|directory| Path::new(directory).exists()));
    victim.kill().unwrap();
    victim.wait().unwrap();
    let begun = Instant::now();
    while let Some(left) = directories.iter().find(|directory| Path::new(directory).exists()) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{left} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "started, and killed, by the test above"]
fn holds_servers_until_it_is_killed() {
    let (running, paused, postgres) =
        (Redis::start().unwrap(), Redis::start().unwrap(), Postgres::start().unwrap());
    paused.pause().unwrap();
    for directory in [running.directory(), paused.directory(), postgres.directory()] {
        println!("holds {}", directory.display());
    }
    loop {
        std::thread::park();
    }
}
