//! A gateway that is told to stop.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::browser::Browser;
use crate::client::BrowserClient;
use crate::world::{World, until};

#[tokio::test]
async fn sessions_go_on_and_nobody_new_is_let_in() {
    let world = World::with(|gateway| gateway.grace(Duration::from_secs(60))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    let address = world.address;
    let waits = tokio::spawn(async move { BrowserClient::connect(address, "/", &[]).await });
    until("one to wait", async || world.waiting().await == 1).await;
    assert_eq!(world.get("/readyz").await.status, 200);
    world.stop.cancel();
    assert_eq!(waits.await.unwrap().unwrap_err().status, 503);
    assert_eq!(world.get("/readyz").await.status, 503);
    assert_eq!(world.get("/healthz").await.status, 200);
    assert_eq!(world.try_connect("/").await.unwrap_err().code(), "stopping");
    client.talk().await;
    drop(client);
    world.gateway.await.unwrap();
}

#[tokio::test]
async fn after_the_grace_everything_is_closed_and_released() {
    let world = World::with(|gateway| gateway.grace(Duration::from_millis(100))).await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let client = world.connect("/").await;
    world.stop.cancel();
    client.closed().await;
    let World { client, gateway, .. } = world;
    gateway.await.unwrap();
    let info = client.store().get_worker(&browser.member.id).await.unwrap().unwrap();
    assert_eq!(info.active, 0);
}

#[tokio::test]
async fn the_grace_can_be_ended() {
    let hurry = CancellationToken::new();
    let world =
        World::with(|gateway| gateway.grace(Duration::from_secs(3600)).skip_grace(hurry.clone())).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let client = world.connect("/").await;
    world.stop.cancel();
    hurry.cancel();
    client.closed().await;
    world.gateway.await.unwrap();
}

#[tokio::test]
async fn a_kept_session_outlives_its_gateway() {
    let world = World::with(|gateway| gateway.grace(Duration::ZERO)).await;
    let next = World::on(world.client.clone(), |gateway| gateway).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let client = world.connect("/?keep=60s").await;
    world.connected(1).await;
    let target = format!("/session/{}", client.session);
    world.stop.cancel();
    client.closed().await;
    world.gateway.await.unwrap();
    next.connect(&target).await.talk().await;
}
