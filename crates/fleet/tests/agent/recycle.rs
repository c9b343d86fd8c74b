//! Members that are ordered to drain.

use tidemill_core::store::fleet::WorkerInfo;

use crate::scene::{Scene, is_free};

#[tokio::test]
async fn a_browser_that_is_ordered_to_drain_is_replaced() {
    let scene = Scene::with(|agent| agent.spare(1)).await;
    let first = scene.see("a browser", |members| members.len() == 1).await.remove(0);
    assert!(scene.fleet().drain(&first.worker.id).await.unwrap());
    let is_other = |members: &[WorkerInfo]| members.len() == 1 && members[0].worker.id != first.worker.id;
    scene.see("another browser", is_other).await;
    scene.end().await;
}

#[tokio::test]
async fn a_browser_in_use_that_is_ordered_to_drain_ends_after_its_session() {
    let scene = Scene::with(|agent| agent.spare(1)).await;
    scene.see("a browser", |members| members.len() == 1).await;
    let (session, grant) = scene.lease("chromium", "cdp").await.unwrap();
    assert!(scene.fleet().drain(&grant.worker).await.unwrap());
    scene.see("its successor", |members| members.iter().any(is_free)).await;
    assert!(scene.fleet().get_worker(&grant.worker).await.unwrap().is_some());
    scene.release(session).await;
    let is_gone = |members: &[WorkerInfo]| members.iter().all(|one| one.worker.id != grant.worker);
    scene.see("it go", is_gone).await;
    scene.end().await;
}
