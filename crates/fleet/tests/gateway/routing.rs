//! From a client to the browser it wants, and back.

use tidemill_core::fleet::Capacity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::browser::{Browser, Manner};
use crate::client::BrowserClient;
use crate::world::World;

const MANY: Capacity = Capacity { concurrent: 10, lifetime: 0 };

#[tokio::test]
async fn bytes_go_through_both_ways_as_they_are() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    client.talk().await;
    let (mut from, mut to) = client.split();
    let sent: Vec<u8> = (0..4 << 20).map(|n: u32| (n % 251) as u8).collect();
    let expected = sent.clone();
    let sending = tokio::spawn(async move {
        to.write_all(&sent).await.unwrap();
        to
    });
    let mut received = vec![0; expected.len()];
    from.read_exact(&mut received).await.unwrap();
    assert!(received == expected);
    sending.await.unwrap();
}

#[tokio::test]
async fn what_a_browser_says_with_its_answer_is_not_lost() {
    let world = World::new().await;
    let browser = Browser::new("chromium:a", "cdp", MANY, Manner::Talk("welcome")).await;
    let _browser = browser.join(&world.client).await;
    world.connect("/").await.expect(b"welcome").await;
}

#[tokio::test]
async fn a_browser_hears_its_own_address_and_nothing_that_is_not_for_it() {
    let token = "ci=hunter2".parse().unwrap();
    let world = World::with(|gateway| gateway.token(token).allow_origin("https://app.example")).await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let headers = ["Origin: https://app.example", "Authorization: Bearer hunter2", "User-Agent: me"];
    BrowserClient::connect(world.address, "/chromium?name=x", &headers).await.unwrap();
    let head = browser.heads().remove(0);
    let host = browser.member.endpoint.trim_start_matches("ws://").split('/').next().unwrap();
    assert!(head.starts_with(&format!("GET /own/a HTTP/1.1\r\nHost: {host}\r\n")), "{head}");
    assert!(head.contains("user-agent: me\r\n") && head.contains("sec-websocket-key: a2V5\r\n"), "{head}");
    assert!(!head.contains("hunter2") && !head.to_lowercase().contains("origin"), "{head}");
}

#[tokio::test]
async fn clients_get_the_browser_they_are_for() {
    let world = World::new().await;
    let mut browsers = Vec::new();
    for (id, offer) in [
        ("chromium:c", "cdp"),
        ("firefox:f", "bidi"),
        ("chromium:old", "playwright-1.63"),
        ("chromium:new", "playwright-1.64"),
    ] {
        browsers.push(Browser::new(id, offer, MANY, Manner::Echo).await.join(&world.client).await);
    }
    let agent = |version| format!("User-Agent: Playwright/{version} (x64; debian 12) node/20.1");
    let playwright = "x-playwright-browser: chromium";
    let cases: [(&str, Vec<String>); 6] = [
        ("/", vec![]),
        ("/?browser=firefox", vec![]),
        ("/", vec![playwright.into(), agent("1.63.2")]),
        ("/chromium", vec![playwright.into(), agent("1.64.0")]),
        ("/playwright/chromium", vec![agent("1.64.9")]),
        ("/cdp", vec![agent("1.64.9")]),
    ];
    for (target, headers) in &cases {
        let headers: Vec<_> = headers.iter().map(String::as_str).collect();
        BrowserClient::connect(world.address, target, &headers).await.unwrap();
    }
    let asked: Vec<_> = browsers.iter().map(|browser| browser.heads().len()).collect();
    assert_eq!(asked, [2, 1, 1, 2]);
}

#[tokio::test]
async fn a_version_of_playwright_that_nobody_has_is_told_which_there_are() {
    let world = World::new().await;
    for (id, offer) in
        [("chromium:a", "playwright-1.63"), ("chromium:b", "playwright-1.64"), ("chromium:c", "cdp")]
    {
        Browser::new(id, offer, MANY, Manner::Echo).await.join(&world.client).await;
    }
    let headers = ["x-playwright-browser: chromium", "User-Agent: Playwright/1.60.0 (x)"];
    let answer = BrowserClient::connect(world.address, "/", &headers).await.unwrap_err();
    assert_eq!((answer.status, answer.code().as_str()), (428, "playwright_version"));
    assert!(answer.body.contains("1.60") && answer.body.contains("1.63, 1.64"), "{answer:?}");
    assert_eq!(world.waiting().await, 0, "nobody waits for a version that does not come");
}

#[tokio::test]
async fn what_a_server_of_unknown_version_says_of_a_client_reaches_it() {
    let world = World::new().await;
    let refusal = "HTTP/1.1 428 Precondition Required\r\n\r\nclient is 1.64, server is 1.50";
    let browser = Browser::new("chromium:a", "playwright", MANY, Manner::Refuse(refusal)).await;
    let _browser = browser.join(&world.client).await;
    let headers = ["x-playwright-browser: chromium", "User-Agent: Playwright/1.64.0 (x)"];
    let answer = BrowserClient::connect(world.address, "/", &headers).await.unwrap_err();
    assert_eq!((answer.status, answer.body.contains("server is 1.50")), (428, true), "{answer:?}");
}

#[tokio::test]
async fn clients_of_http_are_told_to_connect_here_with_all_they_asked_for() {
    let world = World::new().await;
    let url = |target: &'static str| async {
        world.get(target).await.json()["webSocketDebuggerUrl"].as_str().unwrap().to_owned()
    };
    assert_eq!(url("/json/version").await, "ws://localhost/");
    assert_eq!(url("/json/version/?token=a&name=b").await, "ws://localhost/?token=a&name=b");
    assert_eq!(url("/chromium/json/version/").await, "ws://localhost/chromium/");
    assert_eq!(world.get("/playwright/json").await.json()["wsEndpointPath"], "");
}
