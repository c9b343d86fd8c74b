//! Sessions that outlive their connections.

use tidemill_fleet::agent::{Agent, Engine};

use crate::client::{BrowserClient, Library, Way};
use crate::world::{World, eventually};

/// One client types something and leaves; another, in another process, comes back by the session's
/// id and finds it.
async fn comes_back(describe: impl FnOnce(Agent) -> Agent, (library, way): (Library, Way), path: &str) {
    let world = World::with(describe).await;
    world.available(1).await;
    let mut client = BrowserClient::start(library).await;
    client.connect(way, &world.ws(&format!("{path}?keep=60s&name=draft"))).await.unwrap();
    client.open(&world.site.url).await;
    client.type_into("input", "not sent yet").await;
    let session = world.session("draft").await.session;
    client.disconnect().await;
    client.end().await;
    let is_alone = async || world.fleet().get_session(&session).await.unwrap().filter(|one| !one.connected);
    eventually("the session without a client", is_alone).await;
    let mut client = BrowserClient::start(library).await;
    client.connect(way, &world.ws(&format!("/session/{session}"))).await.unwrap();
    client.find(&world.site.url).await;
    assert_eq!(client.value("input").await, "not sent yet");
    client.disconnect().await;
    client.end().await;
    assert_eq!(world.request("DELETE", &format!("/v1/sessions/{session}")).await.0, 202);
    world.end().await;
}

#[tokio::test]
async fn a_page_is_in_place_when_puppeteer_comes_back() {
    comes_back(|agent| agent, (Library::Puppeteer, Way::Puppeteer), "/").await;
}

#[tokio::test]
async fn a_page_is_in_place_when_playwright_comes_back_over_cdp() {
    comes_back(|agent| agent, (Library::Playwright, Way::PlaywrightOverCdp), "/").await;
}

#[tokio::test]
async fn a_page_of_firefox_is_in_place_when_puppeteer_comes_back() {
    let firefox = |agent: Agent| agent.engine(Engine::Firefox);
    comes_back(firefox, (Library::Puppeteer, Way::PuppeteerBidi), "/firefox").await;
}
