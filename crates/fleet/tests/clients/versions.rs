//! Clients of Playwright's own protocol, which are served by servers of their own version only.

use crate::client::{BrowserClient, Library, Way, node};
use crate::site::use_page;
use crate::world::World;

#[tokio::test]
async fn clients_of_two_versions_of_playwright_work_at_the_same_time() {
    let world = World::with(|agent| agent.spare(0).playwright(node())).await;
    let (mut newer, mut older) = tokio::join!(
        BrowserClient::start(Library::Playwright),
        BrowserClient::start(Library::PlaywrightBefore)
    );
    world.available(2).await;
    for (client, name) in [(&mut newer, "newer"), (&mut older, "older")] {
        client.connect(Way::Playwright, &world.ws(&format!("/?name={name}"))).await.unwrap();
    }
    tokio::join!(use_page(&mut newer, &world.site.url), use_page(&mut older, &world.site.url));
    let offer = async |name| world.session(name).await.offer.unwrap().to_string();
    assert_eq!(
        [offer("newer").await, offer("older").await],
        ["playwright-1.65", "playwright-1.64"],
        "both are connected, each to its own"
    );
    newer.end().await;
    older.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_version_that_nobody_has_is_told_which_there_are() {
    let before = Library::PlaywrightBefore.directory();
    let world = World::with(|agent| agent.spare(0).playwright(before)).await;
    world.available(1).await;
    let mut client = BrowserClient::start(Library::Playwright).await;
    let refused = client.connect(Way::Playwright, &world.ws("/")).await.unwrap_err();
    assert!(refused.contains("428"), "{refused}");
    assert!(refused.contains("servers for Playwright 1.64 only"), "{refused}");
    client.end().await;
    world.end().await;
}
