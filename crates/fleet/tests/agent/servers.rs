//! Playwright's servers: two versions side by side, and one that takes another's place.

use std::path::PathBuf;

use rustix::process::Signal;
use tidemill_core::fleet::Capacity;
use tidemill_core::store::fleet::{WorkerInfo, WorkerStatus};
use tidemill_fleet::agent::Agent;
use tokio_tungstenite::connect_async;

use crate::proc::{kill, living_off};
use crate::scene::{Scene, is_free, pid};

/// `cargo xtask test` installs what `tests/node/package.json` names.
fn playwright() -> PathBuf {
    let node = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/node");
    assert!(node.join("node_modules").is_dir(), "run `cargo xtask test`, or `npm ci` in {}", node.display());
    node
}

fn servers(agent: Agent) -> Agent {
    agent.spare(0).playwright(playwright())
}

fn offers(members: &[WorkerInfo]) -> Vec<&str> {
    let mut offers: Vec<_> = members.iter().map(|one| one.worker.offer.as_str()).collect();
    offers.sort_unstable();
    offers
}

#[tokio::test]
async fn every_installed_version_has_a_server_that_answers() {
    let scene = Scene::with(servers).await;
    let members = scene.see("two servers", |members| members.len() == 2).await;
    assert_eq!(offers(&members), ["playwright-1.64", "playwright-1.65"]);
    for offer in ["playwright-1.64", "playwright-1.65"] {
        let (_, grant) = scene.lease("chromium", offer).await.unwrap();
        connect_async(&grant.endpoint).await.unwrap();
    }
    scene.end().await;
}

#[tokio::test]
async fn an_old_server_is_replaced_before_it_goes_and_nobody_is_sent_away() {
    let room = Capacity { concurrent: 2, lifetime: 4 };
    let scene = Scene::with(|agent| servers(agent).capacity(room)).await;
    scene.see("two servers", |members| members.len() == 2).await;
    let offer = "playwright-1.65";
    let (first, grant) = scene.lease("chromium", offer).await.unwrap();
    let (second, _) = scene.lease("chromium", offer).await.unwrap();
    // At two of four it is ageing, and its successor comes before it goes.
    scene.release(second).await;
    let is_there = |members: &[WorkerInfo]| {
        let other = |one: &&WorkerInfo| one.worker.id != grant.worker && one.worker.offer.as_str() == offer;
        members.iter().filter(other).any(is_free)
    };
    scene.see("its successor", is_there).await;
    let (third, _) = scene.lease("chromium", offer).await.expect("a place at any time");
    scene.release(third).await;
    assert!(scene.fleet().get_worker(&grant.worker).await.unwrap().is_some(), "it has a session");
    scene.release(first).await;
    scene.see("it go", |members| members.iter().all(|one| one.worker.id != grant.worker)).await;
    scene.end().await;
}

#[tokio::test]
async fn servers_for_one_session_each_are_never_more_than_wanted() {
    let room = Capacity { concurrent: 1, lifetime: 1 };
    let scene = Scene::with(|agent| servers(agent).capacity(room).most(2)).await;
    let offer = "playwright-1.65";
    let of_offer = |members: &[WorkerInfo]| {
        members.iter().filter(|one| one.worker.offer.as_str() == offer).cloned().collect::<Vec<_>>()
    };
    let mut sessions = Vec::new();
    for _ in 0..2 {
        scene.see("a server", |members| of_offer(members).iter().any(is_free)).await;
        sessions.push(scene.lease("chromium", offer).await.unwrap().0);
    }
    let are_draining = |members: &[WorkerInfo]| {
        of_offer(members).iter().all(|one| one.worker.status == WorkerStatus::Draining)
    };
    let members = of_offer(&scene.see("both drain", are_draining).await);
    let beat = members.iter().map(|one| one.last_beat).max();
    let beaten = |members: &[WorkerInfo]| of_offer(members).iter().all(|one| Some(one.last_beat) > beat);
    assert_eq!(of_offer(&scene.see("another beat", beaten).await).len(), 2);
    scene.release(sessions.remove(0)).await;
    let members = scene.see("a third one", |members| of_offer(members).iter().any(is_free)).await;
    assert!(of_offer(&members).len() <= 2);
    scene.end().await;
}

#[tokio::test]
async fn a_server_whose_browser_is_killed_is_replaced_with_it() {
    let scene = Scene::with(servers).await;
    let members = scene.see("two servers", |members| members.len() == 2).await;
    let server = pid(&members[0]);
    let browser = living_off(scene.directory.path()).into_iter().find(|pid| parent(*pid) == server);
    kill(browser.expect("a browser of the server"), Signal::KILL);
    let is_replaced =
        |now: &[WorkerInfo]| now.len() == 2 && now.iter().all(|one| one.worker.id != members[0].worker.id);
    scene.see("another server", is_replaced).await;
    scene.end().await;
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok()).unwrap_or(0)
}
