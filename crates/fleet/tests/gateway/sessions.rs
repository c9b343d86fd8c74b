//! Sessions while they last, and how they end.

use std::time::{Duration, Instant};

use tidemill_core::HolderId;
use tidemill_core::store::fleet::{AttachParams, Attached};

use crate::browser::Browser;
use crate::world::{World, until};

#[tokio::test]
async fn a_session_is_known_with_all_that_was_said_of_it() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let client = world.connect("/?name=login&meta.team=web").await;
    world.connected(1).await;
    let listed = world.get("/v1/sessions").await.json()["sessions"][0].clone();
    let shown = world.get(&format!("/v1/sessions/{}", client.session)).await.json();
    assert_eq!(
        (&listed["id"], &shown["id"]),
        (&client.session.as_str().into(), &client.session.as_str().into())
    );
    assert_eq!((&shown["worker"], &shown["offer"]), (&"chromium:a".into(), &"cdp".into()));
    assert_eq!(
        (&shown["detail"]["name"], &shown["detail"]["meta"]["team"]),
        (&"login".into(), &"web".into())
    );
    assert_eq!((&shown["connected"], &shown["closing"]), (&true.into(), &false.into()));
    assert!(!shown.to_string().contains("ws://"), "{shown}");
    let capacity = world.get("/v1/capacity").await.json();
    assert_eq!(
        (&capacity["capacity"][0]["active"], &capacity["capacity"][0]["free"]),
        (&1.into(), &0.into())
    );
    let worker = world.get("/v1/workers").await.json()["workers"][0].clone();
    assert_eq!((&worker["id"], &worker["active"]), (&"chromium:a".into(), &1.into()));
}

#[tokio::test]
async fn a_client_that_goes_frees_its_browser_and_the_browser_hears_of_it() {
    let world = World::new().await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    for _ in 0..3 {
        let mut client = world.connect("/").await;
        client.talk().await;
    }
    world.deserted().await;
    until("the browser to be left", async || browser.connected() == 0).await;
    assert_eq!(world.info(&browser).await.lifetime, 3);
}

#[tokio::test]
async fn a_browser_that_closes_closes_its_client() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    client.send(b"bye").await;
    client.closed().await;
    world.deserted().await;
}

#[tokio::test]
async fn closing_a_session_takes_effect_at_once_through_any_gateway() {
    // So long a lease that nothing but the order can be why.
    let world = World::with(|gateway| gateway.lease(Duration::from_secs(3600))).await;
    let other = World::on(world.client.clone(), |gateway| gateway).await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    for closer in [&world, &other] {
        let client = world.connect("/?keep=60s").await;
        world.connected(1).await;
        let answer = closer.delete(&format!("/v1/sessions/{}", client.session)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        client.closed().await;
        world.deserted().await;
    }
    until("the browser to be left", async || browser.connected() == 0).await;
    assert_eq!(world.delete("/v1/sessions/unknown").await.status, 404);
}

#[tokio::test]
async fn a_session_is_held_for_as_long_as_it_runs() {
    let world = World::with(|gateway| gateway.lease_unchecked(Duration::from_millis(300))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    world.connected(1).await;
    let first = world.sessions().await[0].until;
    until("the lease to be extended", async || world.sessions().await[0].until.0 > first.0 + 1_000).await;
    client.talk().await;
}

#[tokio::test]
async fn a_session_that_another_took_is_closed() {
    let world = World::with(|gateway| gateway.lease_unchecked(Duration::from_millis(300))).await;
    let browser = Browser::one(&world.client, "chromium:a").await;
    let client = world.connect("/").await;
    world.connected(1).await;
    let info = world.sessions().await.remove(0);
    let thief = AttachParams {
        session: info.session,
        worker: browser.member.id.clone(),
        holder: HolderId::from_process("thief", 1, 0),
        ttl: Duration::from_secs(60),
        keep: Duration::ZERO,
        connected: true,
        take_over: true,
        must_exist: false,
        detail: info.detail,
        started_at: info.started_at,
    };
    assert_eq!(world.fleet().attach(&[thief]).await.unwrap(), [Attached::Held]);
    client.closed().await;
    assert_eq!(world.sessions().await.len(), 1, "what is another's is not released");
}

#[tokio::test]
async fn a_session_lasts_no_longer_than_it_may() {
    let world = World::with(|gateway| gateway.session_time(Some(Duration::from_millis(100)))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    // Not even if it asked to be kept.
    world.connect("/?keep=60s").await.closed().await;
    world.deserted().await;
    let metrics = world.get("/metrics").await.body;
    assert!(
        metrics.contains("tidemill_gateway_sessions_ended_total{reason=\"session_time\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_session_that_is_come_back_to_lasts_no_longer_for_that() {
    let time = Duration::from_secs(1);
    let world = World::with(|gateway| gateway.session_time(Some(time))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let (began, session) = (Instant::now(), world.connect("/?keep=60s").await.session);
    // It is come back to until it is over; begun anew each time, it never would be.
    until("its end", async || match world.try_connect(&format!("/session/{session}")).await {
        Ok(client) => {
            drop(client);
            false
        }
        Err(refused) => {
            assert_eq!((refused.status, refused.code().as_str()), (410, "gone"));
            true
        }
    })
    .await;
    assert!(began.elapsed() >= time / 2);
    world.deserted().await;
}

#[tokio::test]
async fn a_session_that_is_silent_for_too_long_is_closed() {
    let world = World::with(|gateway| gateway.idle_time(Some(Duration::from_secs(2)))).await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    client.talk().await;
    client.closed().await;
    world.deserted().await;
    assert!(world.get("/metrics").await.body.contains("reason=\"idle_time\"} 1"));
}

#[tokio::test]
async fn figures_say_what_happened() {
    let world = World::new().await;
    let _browser = Browser::one(&world.client, "chromium:a").await;
    let mut client = world.connect("/").await;
    client.talk().await;
    assert_eq!(world.try_connect("/?keep=soon").await.unwrap_err().status, 400);
    let metrics = world.get("/metrics").await.body;
    for line in [
        "tidemill_gateway_sessions_open 1",
        "tidemill_gateway_sessions_opened_total 1",
        "tidemill_gateway_refused_total{reason=\"invalid\"} 1",
        "tidemill_gateway_bytes_total{to=\"browser\"} 5",
        "tidemill_gateway_bytes_total{to=\"client\"} 5",
        "tidemill_gateway_lease_seconds_count 1",
        "tidemill_gateway_dial_seconds_count 1",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} in {metrics}");
    }
}
