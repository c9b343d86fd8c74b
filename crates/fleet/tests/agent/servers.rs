//! Playwright's servers: two versions side by side, and one that takes another's place.

use std::path::PathBuf;

use rustix::process::Signal;
use tidemill_core::fleet::Room;
use tidemill_core::store::fleet::MemberInfo;
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

fn offers(members: &[MemberInfo]) -> Vec<&str> {
    let mut offers: Vec<_> = members.iter().map(|one| one.member.offer.as_str()).collect();
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
    let room = Room { concurrent: 2, lifetime: 4 };
    let scene = Scene::with(|agent| servers(agent).room(room)).await;
    scene.see("two servers", |members| members.len() == 2).await;
    let offer = "playwright-1.65";
    let (first, grant) = scene.lease("chromium", offer).await.unwrap();
    let (second, _) = scene.lease("chromium", offer).await.unwrap();
    // At two of four it is ageing, and its successor comes before it goes.
    scene.release(second).await;
    let is_there = |members: &[MemberInfo]| {
        let other = |one: &&MemberInfo| one.member.id != grant.member && one.member.offer.as_str() == offer;
        members.iter().filter(other).any(is_free)
    };
    scene.see("its successor", is_there).await;
    let (third, _) = scene.lease("chromium", offer).await.expect("a place at any time");
    scene.release(third).await;
    assert!(scene.fleet().member(&grant.member).await.unwrap().is_some(), "it has a session");
    scene.release(first).await;
    scene.see("it go", |members| members.iter().all(|one| one.member.id != grant.member)).await;
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
        |now: &[MemberInfo]| now.len() == 2 && now.iter().all(|one| one.member.id != members[0].member.id);
    scene.see("another server", is_replaced).await;
    scene.end().await;
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok()).unwrap_or(0)
}
