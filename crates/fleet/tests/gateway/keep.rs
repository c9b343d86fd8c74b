//! Sessions that outlive their connection.

use std::time::Duration;

use crate::browser::Browser;
use crate::client::BrowserClient;
use crate::world::{World, until};

#[tokio::test]
async fn a_kept_session_is_found_again_through_any_gateway() {
    let world = World::new().await;
    let other = World::on(world.client.clone(), |gateway| gateway).await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let session = world.connect("/?keep=60s&name=x").await.session;
    world.connected(0).await;
    for (gateway, target) in
        [(&world, format!("/session/{session}")), (&other, format!("/?session={session}"))]
    {
        let mut client = gateway.connect(&target).await;
        client.talk().await;
        assert_eq!(client.session, session);
        world.connected(1).await;
        drop(client);
        world.connected(0).await;
    }
    let info = world.sessions().await.remove(0);
    assert_eq!((info.session.as_str(), info.keep), (session.as_str(), Duration::from_secs(60)));
    assert_eq!(world.info(&browser).await.lifetime, 1, "it is one session");
}

#[tokio::test]
async fn a_session_that_nobody_comes_back_to_ends_with_its_time() {
    let world = World::new().await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let session = world.connect("/?keep=300ms").await.session;
    until("its end", async || world.info(&browser).await.active == 0).await;
    let refused = world.try_connect(&format!("/session/{session}")).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (410, "gone"));
    world.connect("/").await.talk().await;
}

#[tokio::test]
async fn whoever_comes_back_takes_over_from_who_is_there() {
    let world = World::new().await;
    let other =
        World::on(world.client.clone(), |gateway| gateway.lease_unchecked(Duration::from_millis(300))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let first = other.connect("/?keep=60s").await;
    world.connected(1).await;
    let target = format!("/session/{}", first.session);
    // Through another gateway, and through the same one.
    let second = world.connect(&target).await;
    first.closed().await;
    let mut third = world.connect(&target).await;
    second.closed().await;
    third.talk().await;
    drop(third);
    world.connected(0).await;
    assert_eq!(world.sessions().await.len(), 1);
}

#[tokio::test]
async fn of_those_who_come_back_at_once_one_has_the_session_and_the_others_hear_why_not() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let session = world.connect("/?keep=60s").await.session;
    world.connected(0).await;
    let (address, target) = (world.address, format!("/session/{session}"));
    let clients = (0..20).map(|_| {
        let target = target.clone();
        tokio::spawn(async move { BrowserClient::connect(address, &target, &[]).await })
    });
    let mut connected = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        match client.await.unwrap() {
            Ok(client) => connected.push(client),
            Err(refused) => assert_eq!((refused.status, refused.code().as_str()), (409, "taken_over")),
        }
    }
    world.connected(1).await;
    assert!(!connected.is_empty());
    assert_eq!(world.sessions().await.len(), 1);
}

#[tokio::test]
async fn a_kept_session_can_be_closed() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let session = world.connect("/?keep=60s").await.session;
    world.connected(0).await;
    assert_eq!(world.delete(&format!("/v1/sessions/{session}")).await.status, 202);
    world.deserted().await;
    world.connect("/").await.talk().await;
}

#[tokio::test]
async fn a_session_can_be_opened_before_there_is_a_connection() {
    let world = World::new().await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let made = world.post("/v1/sessions", r#"{"keep":"60s","name":"ahead","meta":{"a":"b"}}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    assert_eq!(world.info(&browser).await.active, 1);
    let url = made["webSocketUrl"].as_str().unwrap();
    let mut client = world.connect(url.strip_prefix("ws://localhost").unwrap()).await;
    client.talk().await;
    assert_eq!(made["id"], client.session);
    let detail = world.get(&format!("/v1/sessions/{}", client.session)).await.json()["detail"].clone();
    assert_eq!(detail["name"], "ahead");
    assert!(detail["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{detail}");
}

#[tokio::test]
async fn what_was_opened_ahead_and_never_used_is_free_again() {
    let world = World::new().await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    assert_eq!(world.post("/v1/sessions", r#"{"keep":"200ms"}"#).await.status, 201);
    until("its end", async || world.info(&browser).await.active == 0).await;
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_with_the_reason() {
    let world = World::with(|gateway| gateway.keep_most(Duration::from_secs(60))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    assert_eq!(world.try_connect("/?keep=61s").await.unwrap_err().status, 400);
    let headers = ["x-playwright-browser: chromium", "User-Agent: Playwright/1.64.0 (x)"];
    let refused = BrowserClient::connect(world.address, "/?keep=10s", &headers).await.unwrap_err();
    assert!(refused.status == 400 && refused.body.contains("ends with its connection"), "{refused:?}");
    for (body, why) in [
        (r#"{"protocol":"playwright"}"#, "cannot be opened ahead"),
        (r#"{"browser":"webkit","keep":"0s"}"#, "cannot be opened ahead"),
        (r#"{"keep":"0s"}"#, "must be kept"),
        (r#"{"kep":"1s"}"#, "unknown field"),
        ("[1", "not what it should be"),
        (r#"{"browser":"jobs"}"#, "take no clients"),
    ] {
        let refused = world.post("/v1/sessions", body).await;
        assert!(refused.status == 400 && refused.body.contains(why), "{body}: {refused:?}");
    }
}
