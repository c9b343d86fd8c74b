//! A store that loses everything it knows.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Client;
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::servers::Redis;

use crate::client::{BrowserClient, Library, Way};
use crate::site::use_page;
use crate::world::{World, eventually};

const CLICKS: u32 = 40;

/// A client that works at its page all the time.
async fn works_on(client: &mut BrowserClient) {
    for _ in 0..CLICKS {
        client.click("button").await;
    }
    assert_eq!(client.text("#count").await, (CLICKS + 2).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_go_on_and_everything_is_registered_again_when_redis_is_flushed() {
    let server = Redis::start().unwrap();
    let store = RedisStore::connect(RedisOptions::parse(&server.url()).unwrap()).await.unwrap();
    let place = (Client::new(Arc::new(store)), tempfile::tempdir().unwrap());
    let before = Library::PlaywrightBefore.directory();
    let world = World::on(place, |gateway| gateway, |agent| agent.most(3).playwright(before)).await;
    let (mut older, mut puppeteer) = tokio::join!(
        BrowserClient::start(Library::PlaywrightBefore),
        BrowserClient::start(Library::Puppeteer)
    );
    world.available(2).await;
    older.connect(Way::Playwright, &world.ws("/?name=older")).await.unwrap();
    puppeteer.connect(Way::Puppeteer, &world.ws("/?name=puppeteer")).await.unwrap();
    tokio::join!(use_page(&mut older, &world.site.url), use_page(&mut puppeteer, &world.site.url));
    let known = [world.session("older").await, world.session("puppeteer").await];
    tokio::join!(works_on(&mut older), works_on(&mut puppeteer), async {
        for _ in 0..3 {
            server.command(&["FLUSHALL"]).unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    // Who comes now may find a fleet of nobody, and waits.
    let mut third = BrowserClient::start(Library::Playwright).await;
    server.command(&["FLUSHALL"]).unwrap();
    third.connect(Way::PlaywrightOverCdp, &world.ws("/")).await.unwrap();
    use_page(&mut third, &world.site.url).await;
    for session in known {
        let again =
            async || world.fleet().get_session(&session.session).await.unwrap().filter(|one| one.connected);
        let again = eventually("the session in the store", again).await;
        assert_eq!((again.worker, again.detail), (session.worker.clone(), session.detail));
        let member = async || world.fleet().get_worker(&session.worker).await.unwrap();
        assert_eq!(eventually("its browser in the store", member).await.active, 1);
    }
    tokio::join!(older.click("button"), puppeteer.click("button"));
    for client in [older, puppeteer, third] {
        client.end().await;
    }
    world.end().await;
}
