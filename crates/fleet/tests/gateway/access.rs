//! Who is let in.

use std::net::SocketAddr;
use std::time::Duration;

use tidemill_core::HolderId;
use tidemill_core::fleet::{Capacity, SessionId};
use tidemill_core::store::fleet::AttachParams;
use tidemill_fleet::gateway::{AccessToken, Gateway, ServeError};

use crate::browser::{Browser, Manner};
use crate::client::{BrowserClient, request};
use crate::world::World;

fn token(text: &str) -> AccessToken {
    text.parse().unwrap()
}

#[tokio::test]
async fn every_route_asks_for_its_scope_and_probes_for_none() {
    let world = World::with(|gateway| {
        gateway.token(token("s=one:session")).token(token("r=two:read")).token(token("a=three:admin"))
    })
    .await;
    let _browser = Browser::new("chromium:a", "cdp", Capacity { concurrent: 9, lifetime: 0 }, Manner::Echo)
        .await
        .join(&world.client)
        .await;
    let status = |method: &'static str, target: &'static str, secret: &'static str| async move {
        let authorization = format!("Authorization: Bearer {secret}");
        request(world.address, method, target, &[&authorization]).await.status
    };
    let cases = [
        ("GET", "/v1/sessions", [403, 200, 200]),
        ("GET", "/v1/sessions/x", [403, 404, 404]),
        ("DELETE", "/v1/sessions/x", [403, 403, 404]),
        ("GET", "/v1/workers", [403, 200, 200]),
        ("GET", "/v1/workers/chromium:a", [403, 200, 200]),
        ("GET", "/v1/capacity", [403, 200, 200]),
        ("GET", "/metrics", [403, 200, 200]),
        ("GET", "/json/version", [200, 403, 200]),
        ("GET", "/json", [200, 403, 200]),
        ("POST", "/v1/sessions", [201, 403, 201]),
    ];
    for (method, target, expected) in cases {
        let got = [
            status(method, target, "one").await,
            status(method, target, "two").await,
            status(method, target, "three").await,
        ];
        assert_eq!(got, expected, "{method} {target}");
        assert_eq!(request(world.address, method, target, &[]).await.status, 401, "{method} {target}");
    }
    assert_eq!(request(world.address, "GET", "/healthz", &[]).await.status, 200);
    assert_eq!(world.try_connect("/").await.unwrap_err().status, 401);
    assert_eq!(world.try_connect("/?token=two").await.unwrap_err().status, 403);
    assert_eq!(world.try_connect("/session/x").await.unwrap_err().status, 401);
    world.connect("/?token=one").await.talk().await;
}

#[tokio::test]
async fn a_session_is_come_back_to_with_the_token_that_opened_it_only() {
    let world = World::with(|gateway| {
        let (mine, other) = (token("mine=one:session"), token("other=two:session,read"));
        gateway.token(mine).token(other).token(token("a=three:admin"))
    })
    .await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let session = world.connect("/?token=one&keep=60s").await.session;
    let target = |secret: &str| format!("/session/{session}?token={secret}");
    let refused = world.try_connect(&target("two")).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (403, "session"));
    let refused = world.try_connect(&format!("/?session={session}&token=two")).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (403, "session"));
    for secret in ["one", "three"] {
        world.connect(&target(secret)).await.talk().await;
    }
}

#[tokio::test]
async fn a_session_that_no_gateway_opened_is_nobodys_to_connect_to() {
    let world = World::new().await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let job = AttachParams {
        session: SessionId::generate(),
        worker: browser.member.id.clone(),
        holder: HolderId::from_process("worker", 1, 0),
        ttl: Duration::from_secs(60),
        keep: Duration::ZERO,
        connected: true,
        take_over: false,
        must_exist: false,
        detail: br#"{"job":"j","kind":"screenshot","queue":"default"}"#.as_slice().into(),
        started_at: world.client.store().clock().now(),
    };
    world.fleet().attach(std::slice::from_ref(&job)).await.unwrap();
    let refused = world.try_connect(&format!("/session/{}", job.session)).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (403, "session"));
    assert_eq!(world.sessions().await.remove(0).holder, job.holder);
}

#[tokio::test]
async fn pages_and_foreign_names_are_refused_on_every_route() {
    let world = World::with(|gateway| gateway.allow_host("gate.internal")).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    for target in ["/healthz", "/json/version", "/v1/sessions"] {
        for header in ["Origin: http://evil.example", "Origin: null", "Host: evil.example"] {
            assert_eq!(
                request(world.address, "GET", target, &[header]).await.status,
                403,
                "{target} {header}"
            );
        }
    }
    let refused =
        BrowserClient::connect(world.address, "/", &["Origin: http://localhost:3000"]).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (403, "origin"));
    let refused = BrowserClient::connect(world.address, "/", &["Host: rebound.example"]).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (403, "host"));
    BrowserClient::connect(world.address, "/", &["Host: gate.internal:7718"]).await.unwrap().talk().await;
}

#[tokio::test]
async fn a_request_with_two_names_for_us_is_refused() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let twice = ["Host: localhost", "Host: rebound.example"];
    for target in ["/healthz", "/v1/sessions", "/json/version"] {
        assert_eq!(request(world.address, "GET", target, &twice).await.status, 400, "{target}");
        let whole = format!("http://rebound.example{target}");
        assert_eq!(request(world.address, "GET", &whole, &[]).await.status, 400, "{whole}");
    }
    let refused = BrowserClient::connect(world.address, "/", &twice).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid"));
    let refused = BrowserClient::connect(world.address, "ws://localhost/", &[]).await.unwrap_err();
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid"));
    world.connect("/").await.talk().await;
}

#[tokio::test]
async fn a_client_of_puppeteer_is_told_where_its_token_goes() {
    let world = World::with(|gateway| gateway.token(token("s=one:session"))).await;
    let refused = world.get("/json/version").await;
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("browserWSEndpoint"), "{refused:?}");
    assert_eq!(world.get("/json/version?token=one").await.status, 200);
}

#[tokio::test]
async fn it_listens_elsewhere_with_a_token_only() {
    let world = World::new().await;
    let check = |gateway: Gateway, address: &str| gateway.check(address.parse::<SocketAddr>().unwrap());
    for address in ["0.0.0.0:7718", "[::]:7718", "10.0.0.1:7718"] {
        let refused = check(Gateway::new(&world.client), address);
        assert!(matches!(refused, Err(ServeError::Exposed(_))), "{address}");
        assert!(check(Gateway::new(&world.client).token(token("a=b")), address).is_ok());
    }
    for address in ["127.0.0.1:7718", "127.8.0.1:1", "[::1]:7718", "[::ffff:127.0.0.1]:1"] {
        assert!(check(Gateway::new(&world.client), address).is_ok(), "{address}");
    }
}

#[tokio::test]
async fn a_handshake_that_is_none_and_a_head_without_end_are_refused() {
    let world = World::new().await;
    let answer = request(world.address, "GET", "/", &["Upgrade: websocket"]).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid"));
    let long = format!("X-Long: {}", "x".repeat(40 << 10));
    assert_eq!(request(world.address, "GET", "/healthz", &[&long]).await.status, 431);
}

#[tokio::test]
async fn a_lease_is_refused_that_an_outage_nobody_sees_would_outlast() {
    let store = tidemill_sqlite::SqliteStore::open(tidemill_sqlite::SqliteOptions::memory()).await.unwrap();
    let client = tidemill_core::Client::new(std::sync::Arc::new(store));
    let (here, secs) = ("127.0.0.1:7718".parse().unwrap(), std::time::Duration::from_secs);
    let gateway = || Gateway::new(&client);
    assert!(gateway().check(here).is_ok() && gateway().lease(secs(14)).check(here).is_ok());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = gateway().lease(secs(8)).serve(listener, std::future::pending()).await.unwrap_err();
    assert!(matches!(error, ServeError::Lease(_)));
    let expected = "a lease of 8s is too short: a store that is away for a moment would cost clients their browsers; \
                    the least is 14s";
    assert_eq!(error.to_string(), expected);
}
