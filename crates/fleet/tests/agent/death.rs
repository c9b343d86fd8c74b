//! Browsers and agents that die.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tidemill_fleet::agent::{Agent, Engine};

use crate::proc::{is_alive, kill, living_off};
use crate::scene::{Scene, eventually, is_free, open, pid};

/// Where the agent that is a process of its own finds its store.
const STORE: &str = "TIDEMILL_TEST_STORE";

#[tokio::test]
async fn a_killed_browser_is_replaced_and_counted() {
    let scene = Scene::with(|agent| agent.spare(1)).await;
    let first = scene.see("a browser", |members| members.len() == 1).await.remove(0);
    kill(pid(&first), Signal::KILL);
    let is_other = |members: &[_]| {
        members.len() == 1
            && members
                .iter()
                .all(|one: &tidemill_core::store::fleet::WorkerInfo| one.worker.id != first.worker.id)
    };
    let second = scene.see("another browser", is_other).await.remove(0);
    let detail: serde_json::Value = serde_json::from_slice(&second.worker.detail).unwrap();
    assert_eq!(detail["crashes"], 1);
    scene.end().await;
}

#[tokio::test]
async fn a_browser_that_hangs_is_replaced() {
    let scene = Scene::with(|agent| agent.spare(1)).await;
    let first = scene.see("a browser", |members| members.len() == 1).await.remove(0);
    kill(pid(&first), Signal::STOP);
    let is_other = |members: &[tidemill_core::store::fleet::WorkerInfo]| {
        members.iter().any(is_free) && members.iter().all(|one| one.worker.id != first.worker.id)
    };
    scene.see("another browser", is_other).await;
    assert!(!is_alive(pid(&first)));
    scene.end().await;
}

#[tokio::test]
async fn nothing_is_left_of_an_agent_that_is_killed() {
    let scene = Scene::empty().await;
    let mut agent = Command::new(std::env::current_exe().unwrap());
    agent.args(["--exact", "death::an_agent_of_its_own"]).env(STORE, scene.directory.path());
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    scene.see("its browsers", |members| members.len() == 2).await;
    scene.lease("chromium", "cdp").await.unwrap();
    // The agent's own process has the directory in its environment, too.
    assert!(living_off(scene.directory.path()).len() > 2 && scene.rooms().len() == 1);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let nothing = || living_off(scene.directory.path()).is_empty() && scene.rooms().is_empty();
    eventually("no process and no directory", nothing).await;
}

/// Not a test: the process that `nothing_is_left_of_an_agent_that_is_killed` kills.
#[tokio::test]
async fn an_agent_of_its_own() {
    let Some(directory) = std::env::var_os(STORE) else { return };
    let directory = std::path::PathBuf::from(directory);
    let client = open(&directory.join("fleet.db")).await;
    let agent = Agent::new(&client).directory(&directory).spare(2);
    agent.run_until(std::future::pending::<()>()).await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_an_agent_that_is_dropped() {
    let mut scene = Scene::with(|agent| agent.spare(2)).await;
    scene.see("its browsers", |members| members.len() == 2).await;
    scene.abort();
    let nothing = || living_off(scene.directory.path()).is_empty() && scene.rooms().is_empty();
    eventually("no process and no directory", nothing).await;
}

#[tokio::test]
async fn a_browser_that_does_not_start_is_not_tried_in_a_hot_loop() {
    let broken = tempfile::tempdir().unwrap();
    let (program, tries) = (broken.path().join("browser"), broken.path().join("tries"));
    std::fs::write(&program, format!("#!/bin/sh\necho x >> {}\nexit 3\n", tries.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let begun = std::time::Instant::now();
    let scene = Scene::with(|agent| agent.engine(Engine::Chromium).binary(&program)).await;
    let count = || std::fs::read_to_string(&tries).unwrap_or_default().lines().count();
    eventually("three tries", || count() >= 3).await;
    // A quarter, a half, then a whole second and so on: what has passed allows so many at most.
    let most = 2.0 + (begun.elapsed().as_secs_f64() / 0.25).log2().max(1.0);
    assert!(count() as f64 <= most + 1.0, "{} tries in {:?}", count(), begun.elapsed());
    scene.end().await;
}
