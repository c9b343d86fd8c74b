//! A store that is away, or has lost its data, while sessions run.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Client;
use tidemill_core::store::fleet::BeatParams;
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::servers::Redis;

use crate::browser::Browser;
use crate::world::{World, until};

async fn world(server: &Redis) -> World {
    let store = RedisStore::connect(RedisOptions::parse(&server.url()).unwrap()).await.unwrap();
    World::on(Client::new(Arc::new(store)), |gateway| gateway.lease_unchecked(Duration::from_secs(1))).await
}

/// Waits until the store knows one session that is connected, and says nothing while it cannot be
/// asked.
async fn known_again(world: &World, session: &str) {
    until("the session to be known again", async || {
        let session = world.fleet().get_session(&session.parse().unwrap()).await;
        session.is_ok_and(|session| session.is_some_and(|session| session.connected))
    })
    .await;
}

/// Whether the store heard that the browser lives.
async fn beats(world: &World, browser: &Browser) -> bool {
    let beat = BeatParams { workers: std::slice::from_ref(&browser.member), grace: Duration::from_secs(1) };
    world.fleet().beat(beat).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_go_on_when_the_store_has_lost_everything_and_it_hears_of_them_again() {
    let server = Redis::start().unwrap();
    let world = world(&server).await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    world.connected(1).await;
    server.command(&["FLUSHALL"]).unwrap();
    assert!(beats(&world, &browser).await);
    known_again(&world, &client.session).await;
    client.talk().await;
    assert_eq!(world.info(&browser).await.active, 1);
    drop(client);
    world.deserted().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_closed_because_the_store_is_away() {
    let server = Redis::start().unwrap();
    let world = world(&server).await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    world.connected(1).await;
    server.kill().unwrap();
    until("the gateway to notice", async || world.get("/readyz").await.status == 503).await;
    // Longer than the lease: what counts for the store does not count for the connection.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    client.talk().await;
    assert_eq!(world.try_connect("/").await.unwrap_err().code(), "store");
    assert_eq!(world.get("/healthz").await.status, 200);
    server.restart().unwrap();
    until("the browser to be entered again", async || beats(&world, &browser).await).await;
    known_again(&world, &client.session).await;
    client.talk().await;
    until("the gateway to be ready", async || world.get("/readyz").await.status == 200).await;
}
