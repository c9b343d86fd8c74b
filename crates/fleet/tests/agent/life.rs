//! Browsers that start, serve one session, and end.

use tidemill_core::store::fleet::WorkerStatus;
use tidemill_fleet::agent::{Agent, AgentError, Engine};
use tokio_tungstenite::connect_async;

use crate::scene::{Scene, is_free, pid};

#[tokio::test]
async fn a_browser_starts_joins_and_can_be_connected_to() {
    let scene = Scene::with(|agent| agent.spare(1)).await;
    let members = scene.see("a browser", |members| members.len() == 1).await;
    let detail: serde_json::Value = serde_json::from_slice(&members[0].worker.detail).unwrap();
    assert!(detail["version"].as_str().unwrap().contains("Chrome/"), "{detail}");
    assert_eq!((&detail["engine"], &detail["crashes"]), (&"headless-shell".into(), &0.into()));
    let (_, grant) = scene.lease("chromium", "cdp").await.unwrap();
    connect_async(&grant.endpoint).await.unwrap();
    scene.end().await;
}

#[tokio::test]
async fn a_leased_browser_has_a_successor_and_ends_with_its_session() {
    let scene = Scene::with(|agent| agent.spare(1).most(2)).await;
    let first = scene.see("a browser", |members| members.len() == 1).await.remove(0);
    let (session, grant) = scene.lease("chromium", "cdp").await.unwrap();
    assert_eq!(grant.worker, first.worker.id);
    scene.see("a second one", |members| members.len() == 2 && members.iter().any(is_free)).await;
    scene.release(session).await;
    let is_gone = |members: &[_]| members.iter().all(|one: &_| is_free(one)) && members.len() == 1;
    let left = scene.see("the first one go", is_gone).await;
    assert_ne!(left[0].worker.id, first.worker.id);
    assert!(!crate::proc::is_alive(pid(&first)));
    scene.end().await;
}

#[tokio::test]
async fn there_are_never_more_browsers_than_wanted() {
    let scene = Scene::with(|agent| agent.spare(1).most(2)).await;
    scene.see("a browser", |members| members.iter().any(is_free)).await;
    let (first, _) = scene.lease("chromium", "cdp").await.unwrap();
    scene.see("another", |members| members.iter().any(is_free)).await;
    scene.lease("chromium", "cdp").await.unwrap();
    assert!(scene.lease("chromium", "cdp").await.is_none());
    scene.release(first).await;
    let members = scene.see("a third one", |members| members.iter().any(is_free)).await;
    assert!(members.len() <= 2);
    scene.end().await;
}

#[tokio::test]
async fn the_only_browser_stays_in_the_fleet_until_its_successor_joins() {
    let go = tempfile::tempdir().unwrap();
    let path = go.path().display();
    let wait = format!("while [ -e {path}/first ] && [ ! -e {path}/go ]; do sleep 0.05; done");
    let command = format!("{wait}; touch {path}/first; echo ws://127.0.0.1:9/; sleep 1000 & wait");
    let (kind, offer) = ("webkit".parse().unwrap(), "own".parse().unwrap());
    let engine = Engine::Command { command, kind, offer };
    let scene = Scene::with(|agent| agent.engine(engine).most(1)).await;
    let first = scene.see("a browser", |members| members.iter().any(is_free)).await.remove(0);
    let (session, _) = scene.lease("webkit", "own").await.unwrap();
    scene.see("it drain", |members| members[0].worker.status == WorkerStatus::Draining).await;
    scene.release(session).await;
    crate::scene::eventually("its end", || !crate::proc::is_alive(pid(&first))).await;
    let beat = scene.members().await[0].last_beat;
    let members = scene.see("it beat again", |members| members[0].last_beat > beat).await;
    assert_eq!((members.len(), &members[0].worker.id), (1, &first.worker.id));
    std::fs::write(go.path().join("go"), "").unwrap();
    let members = scene.see("its successor", |members| members.iter().any(is_free)).await;
    assert_eq!(members.len(), 1);
    scene.end().await;
}

#[tokio::test]
async fn firefox_speaks_bidi() {
    let scene = Scene::with(|agent| agent.engine(Engine::Firefox)).await;
    let members = scene.see("a browser", |members| members.len() == 1).await;
    assert!(members[0].worker.endpoint.ends_with("/session"));
    let (_, grant) = scene.lease("firefox", "bidi").await.unwrap();
    connect_async(&grant.endpoint).await.unwrap();
    scene.end().await;
}

#[tokio::test]
async fn any_command_that_prints_an_address_is_a_browser() {
    let kind = "webkit".parse().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}/", listener.local_addr().unwrap());
    let command = format!("echo starting; echo \"ready at {address}$$\"; sleep 1000 & wait");
    let engine = Engine::Command { command, kind, offer: "own".parse().unwrap() };
    let scene = Scene::with(|agent| agent.engine(engine)).await;
    scene.see("it", |members| members.len() == 1).await;
    let (_, grant) = scene.lease("webkit", "own").await.unwrap();
    assert!(grant.endpoint.starts_with(&address), "{}", grant.endpoint);
    scene.end().await;
}

#[tokio::test]
async fn sessions_may_end_when_the_agent_is_stopped() {
    let mut scene = Scene::with(|agent| agent.spare(2)).await;
    scene.see("two browsers", |members| members.len() == 2).await;
    let (session, grant) = scene.lease("chromium", "cdp").await.unwrap();
    let ended = scene.stop();
    let rule = |members: &[tidemill_core::store::fleet::WorkerInfo]| {
        members.len() == 1 && members[0].worker.status == WorkerStatus::Draining
    };
    let left = scene.see("only the one in use", rule).await;
    assert_eq!(left[0].worker.id, grant.worker);
    connect_async(&grant.endpoint).await.unwrap();
    scene.release(session).await;
    ended.await.unwrap().unwrap();
    assert!(scene.members().await.is_empty());
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn what_does_not_end_in_time_is_ended() {
    let mut scene = Scene::with(|agent| agent.grace(std::time::Duration::from_millis(50))).await;
    scene.see("a browser", |members| members.len() == 1).await;
    scene.lease("chromium", "cdp").await.unwrap();
    scene.stop().await.unwrap().unwrap();
    assert!(scene.members().await.is_empty());
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn an_agent_that_cannot_work_says_why() {
    let scene = Scene::empty().await;
    let agent = || Agent::new(&scene.client);
    let missing = scene.directory.path().join("no-such-browser");
    let error = |agent: Agent| agent.build().unwrap_err();
    assert!(matches!(error(agent().binary(&missing)), AgentError::NotExecutable(path) if path == missing));
    assert!(matches!(error(agent().spare(0)), AgentError::Options(_)));
    assert!(matches!(error(agent().spare(3).most(2)), AgentError::Options(_)));
    let empty = scene.directory.path();
    assert!(matches!(error(agent().playwright(empty)), AgentError::NotPlaywright(path) if path == empty));
    assert!(matches!(error(agent().engine(Engine::Firefox).playwright(empty)), AgentError::Options(_)));
}
