//! Every way to connect that clients have, through one address.

use tidemill_fleet::agent::Engine;

use crate::client::{BrowserClient, Library, Way};
use crate::site::use_page;
use crate::world::World;

/// A client connects, uses a page and leaves, and says which browser it had.
async fn visit(world: &World, client: &mut BrowserClient, way: Way, url: &str) -> String {
    let begun = std::time::Instant::now();
    let version = client.connect(way, url).await.unwrap();
    let connected = begun.elapsed();
    let page = use_page(client, &world.site.url).await;
    println!("{way:?}: connected after {connected:?}, and to a page in {page} ms more");
    client.disconnect().await;
    version
}

#[tokio::test]
async fn chromium_is_had_over_cdp_by_websocket_and_by_http() {
    let world = World::with(|agent| agent.spare(2).most(4)).await;
    let (mut playwright, mut puppeteer) =
        tokio::join!(BrowserClient::start(Library::Playwright), BrowserClient::start(Library::Puppeteer));
    world.available(2).await;
    for (way, url) in [(Way::PlaywrightOverCdp, world.ws("/")), (Way::PlaywrightOverCdp, world.http("/"))] {
        visit(&world, &mut playwright, way, &url).await;
    }
    for (way, url) in [(Way::Puppeteer, world.ws("/")), (Way::PuppeteerByUrl, world.http(""))] {
        let version = visit(&world, &mut puppeteer, way, &url).await;
        assert!(version.contains("Chrome"), "{version}");
    }
    playwright.end().await;
    puppeteer.end().await;
    world.end().await;
}

#[tokio::test]
async fn firefox_is_had_over_bidi_by_path_and_by_query() {
    let world = World::with(|agent| agent.engine(Engine::Firefox).spare(1).most(2)).await;
    let mut client = BrowserClient::start(Library::Puppeteer).await;
    world.available(1).await;
    for target in ["/firefox", "/?browser=firefox"] {
        let version = visit(&world, &mut client, Way::PuppeteerBidi, &world.ws(target)).await;
        assert!(version.to_lowercase().contains("firefox"), "{version}");
        world.deserted().await;
        world.available(1).await;
    }
    client.end().await;
    world.end().await;
}
