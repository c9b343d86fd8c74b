//! Browsers that do not answer.

use std::time::Duration;

use tidemill_core::fleet::Capacity;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::browser::{Browser, Manner};
use crate::client::{BrowserClient, read_head};
use crate::world::World;

const ONE: Capacity = Capacity { concurrent: 1, lifetime: 0 };

/// A member nobody listens for.
async fn dead(world: &World, id: &str) -> Browser {
    let mut browser = Browser::new(id, "cdp", ONE, Manner::Echo).await;
    browser.member.endpoint = "ws://127.0.0.1:1/gone".into();
    browser.join(&world.client).await
}

#[tokio::test]
async fn a_browser_that_cannot_be_had_is_passed_over_before_the_client_notices() {
    let world = World::with(|gateway| gateway.dial_time(Duration::from_millis(200))).await;
    let dead = dead(&world, "chromium:dead").await;
    let silent = Browser::new("chromium:silent", "cdp", ONE, Manner::Silent).await.join(&world.client).await;
    let refusal = "HTTP/1.1 500 Internal\r\n\r\nno";
    let broken =
        Browser::new("chromium:broken", "cdp", ONE, Manner::Refuse(refusal)).await.join(&world.client).await;
    let sound = Browser::one(&world.client, "chromium:sound").await;
    let mut client = world.connect("/").await;
    client.talk().await;
    world.connected(1).await;
    let active = async |browser: &Browser| world.info(browser).await.active;
    assert_eq!([active(&dead).await, active(&silent).await, active(&broken).await], [0, 0, 0]);
    assert_eq!(active(&sound).await, 1);
}

#[tokio::test]
async fn a_client_waits_for_a_sound_browser_when_there_is_none_but_a_dead_one() {
    let world = World::new().await;
    let _dead = dead(&world, "chromium:dead").await;
    let (connecting, join) = tokio::join!(world.try_connect("/"), async {
        crate::world::until("the client to wait", async || world.waiting().await == 1).await;
        Browser::one(&world.client, "chromium:sound").await
    });
    connecting.unwrap().talk().await;
    drop(join);
}

#[tokio::test]
async fn an_address_that_is_none_is_a_browser_that_cannot_be_had() {
    let world = World::with(|gateway| gateway.queue(1, Duration::from_millis(300))).await;
    let mut browser = Browser::new("chromium:odd", "cdp", ONE, Manner::Echo).await;
    browser.member.endpoint = "carrier pigeon".into();
    let browser = browser.join(&world.client).await;
    assert_eq!(world.try_connect("/").await.unwrap_err().status, 503);
    world.deserted().await;
    assert_eq!(world.info(&browser).await.active, 0);
}

#[tokio::test]
async fn a_session_that_is_closed_while_its_browser_is_dialled_stays_closed() {
    let world = World::new().await;
    let other = World::on(world.client.clone(), |gateway| gateway).await;
    let (slow, room) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), Capacity { concurrent: 9, lifetime: 0 });
    let mut browser = Browser::new("chromium:slow", "cdp", room, Manner::Echo).await;
    browser.member.endpoint = format!("ws://{}/", slow.local_addr().unwrap());
    let browser = browser.join(&world.client).await;
    for closer in [&world, &other] {
        let address = world.address;
        let connecting =
            tokio::spawn(async move { BrowserClient::connect(address, "/?keep=60s", &[]).await });
        let (mut stream, _) = slow.accept().await.unwrap();
        read_head(&mut stream).await.unwrap();
        let session = world.sessions().await.remove(0).session;
        assert_eq!(closer.delete(&format!("/v1/sessions/{session}")).await.status, 202);
        // Another connection: what was announced before it has been heard.
        world.get("/healthz").await;
        stream.write_all(b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: yes\r\n\r\n").await.unwrap();
        match connecting.await.unwrap() {
            Err(refused) => assert_eq!((refused.status, refused.code().as_str()), (410, "gone")),
            Ok(client) => client.closed().await,
        }
        world.deserted().await;
    }
    assert_eq!(world.info(&browser).await.lifetime, 2, "each was one session");
}
