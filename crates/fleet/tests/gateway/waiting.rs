//! Clients that wait for a browser.

use std::time::Duration;

use crate::browser::Browser;
use crate::client::BrowserClient;
use crate::world::{World, until};

#[tokio::test]
async fn clients_are_served_first_in_first_out_across_gateways() {
    let one = World::new().await;
    let other = World::on(one.client.clone(), |gateway| gateway).await;
    let _browser = Browser::one(&one.client, "chromium:a").await;
    let first = one.connect("/?name=0").await;
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 1..=4_u32 {
        let (address, served) = ([&one, &other][number as usize % 2].address, served.clone());
        tokio::spawn(async move {
            let client = BrowserClient::connect(address, "/", &[]).await.unwrap();
            served.send((number, client)).unwrap();
        });
        until("the client to wait", async || one.waiting().await == number).await;
    }
    let mut current = first;
    for expected in 1..=4 {
        drop(current);
        let number;
        (number, current) = order.recv().await.unwrap();
        assert_eq!(number, expected);
    }
}

#[tokio::test]
async fn a_client_waits_for_a_browser_of_one_session_that_is_in_use() {
    let world = World::with(|gateway| gateway.queue(1, Duration::from_secs(600))).await;
    let browser = Browser::for_one_session(&world.client, "chromium:a").await;
    let first = world.connect("/").await;
    browser.drain(&world.client).await;
    let address = world.address;
    let waits = tokio::spawn(async move { BrowserClient::connect(address, "/", &[]).await });
    until("one to wait", async || world.waiting().await == 1).await;
    let refused = world.try_connect("/").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (429, "queue_full"));
    // Longer than a client waits where there is no worker.
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(world.waiting().await, 1);
    drop(first);
    world.fleet().part(std::slice::from_ref(&browser.member.id)).await.unwrap();
    let refused = world.try_connect("/").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (429, "queue_full"), "it is being replaced");
    let _next = Browser::for_one_session(&world.client, "chromium:b").await;
    waits.await.unwrap().unwrap().talk().await;
}

#[tokio::test]
async fn without_a_line_a_browser_of_one_session_in_use_is_busy() {
    let world = World::with(|gateway| gateway.queue(0, Duration::from_secs(60))).await;
    let browser = Browser::for_one_session(&world.client, "chromium:a").await;
    let _client = world.connect("/").await;
    browser.drain(&world.client).await;
    let refused = world.try_connect("/").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (503, "busy"));
}

#[tokio::test]
async fn whoever_waits_too_long_is_told_when_to_come_back() {
    let world = World::with(|gateway| gateway.queue(5, Duration::from_millis(200))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let _client = world.connect("/").await;
    let refused = world.try_connect("/").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (503, "queue_time"));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    until("its place to be given up", async || world.waiting().await == 0).await;
}

#[tokio::test]
async fn a_line_that_is_full_takes_nobody() {
    let world = World::with(|gateway| gateway.queue(1, Duration::from_secs(60))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let _client = world.connect("/").await;
    let address = world.address;
    let waits = tokio::spawn(async move { BrowserClient::connect(address, "/", &[]).await });
    until("one to wait", async || world.waiting().await == 1).await;
    let refused = world.try_connect("/").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (429, "queue_full"));
    assert!(refused.header("retry-after").is_some());
    waits.abort();
}

#[tokio::test]
async fn without_a_line_nobody_waits() {
    let world = World::with(|gateway| gateway.queue(0, Duration::from_secs(60))).await;
    let refused = world.try_connect("/").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (503, "no_worker"));
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let _client = world.connect("/").await;
    let refused = world.try_connect("/").await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (503, "busy"));
}

#[tokio::test]
async fn a_client_that_goes_gives_its_place_up() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let first = world.connect("/").await;
    let address = world.address;
    let waits = tokio::spawn(async move { BrowserClient::connect(address, "/", &[]).await });
    until("it to wait", async || world.waiting().await == 1).await;
    waits.abort();
    until("its place to be given up", async || world.waiting().await == 0).await;
    drop(first);
    world.connect("/").await.talk().await;
}

#[tokio::test]
async fn a_browser_that_joins_is_given_to_who_waits() {
    let world = World::new().await;
    let (connected, _browser) = tokio::join!(world.connect("/"), async {
        until("it to wait", async || world.waiting().await == 1).await;
        Browser::one(&world.client, "chromium:a").await
    });
    drop(connected);
}

#[tokio::test]
async fn what_nobody_has_heard_of_is_refused_at_once_and_has_no_line() {
    let world = World::with(|gateway| gateway.queue(100, Duration::from_secs(3600))).await;
    let agent = "User-Agent: Playwright/1.9999.0 (x)";
    for (target, headers) in [("/?browser=x1", &[][..]), ("/playwright/x2", &[]), ("/playwright", &[agent])] {
        let refused = BrowserClient::connect(world.address, target, headers).await.unwrap_err();
        assert_eq!((refused.status, refused.code().as_str()), (503, "no_worker"), "{target}");
        assert_eq!(world.waiting().await, 0, "{target}");
    }
    // What is there is waited for, whatever it is called.
    let _browser = Browser::one(&world.client, "x1:a").await;
    let first = world.connect("/cdp/x1").await;
    let address = world.address;
    let waits = tokio::spawn(async move { BrowserClient::connect(address, "/cdp/x1", &[]).await });
    until("it to wait", async || world.waiting().await == 1).await;
    drop(first);
    waits.await.unwrap().unwrap().talk().await;
}
