//! A store that is away for longer than a lease lasts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tidemill_core::Client;
use tidemill_core::store::fleet::{AttachParams, Attached, WorkerInfo};
use tidemill_fleet::gateway::Gateway;
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::servers::{Redis, RedisOptions as ServerOptions};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::proc::is_alive;
use crate::scene::{Scene, pid};

/// What the holder in these tests leases for.
const LEASE: Duration = Duration::from_secs(1);

/// Longer than it takes an agent to miss its store.
const AWAY: Duration = Duration::from_secs(7);

/// A scene with one spare browser on this server.
async fn scene(server: &Redis) -> Scene {
    let store = RedisStore::connect(RedisOptions::parse(&server.url()).unwrap()).await.unwrap();
    Scene::on(Client::new(Arc::new(store)), |agent| agent.spare(1))
}

/// The server is away for a while, and comes back with all it had.
async fn outage(server: &Redis) {
    server.kill().unwrap();
    sleep(AWAY).await;
    server.restart().unwrap();
}

/// A server that has everything again when it is back.
fn lasting() -> Redis {
    let args = ["--appendfsync", "always"].map(str::to_owned).to_vec();
    Redis::with(ServerOptions { appendonly: true, args, ..ServerOptions::default() }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_in_use_is_not_taken_for_used_up_because_nobody_could_extend_its_lease() {
    let server = lasting();
    let mut scene = scene(&server).await;
    let first = scene.see("a browser", |members| members.len() == 1).await.remove(0);
    let (session, _) = scene.lease_for("chromium", "cdp", LEASE).await.unwrap();
    scene.see("its successor", |members| members.len() == 2).await;
    outage(&server).await;
    // The agent is faster than the holder: twice it hears that the browser has had its session and
    // has none.
    for _ in 0..2 {
        let now = scene.client.store().clock().now();
        let has_beaten =
            |one: &WorkerInfo| one.worker.id == first.worker.id && one.last_beat > now && one.active == 0;
        scene.see("a beat", |members| members.iter().any(has_beaten)).await;
    }
    let attach = AttachParams {
        session,
        worker: first.worker.id.clone(),
        holder: scene.holder.clone(),
        ttl: Duration::from_secs(300),
        keep: Duration::ZERO,
        connected: true,
        take_over: false,
        must_exist: false,
        detail: "{}".into(),
        started_at: scene.client.store().clock().now(),
    };
    assert_eq!(scene.fleet().attach(&[attach]).await.unwrap(), [Attached::Held]);
    assert!(is_alive(pid(&first)));
    scene.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_keeps_its_browser_when_the_store_was_away_for_longer_than_a_lease() {
    let server = lasting();
    let mut scene = scene(&server).await;
    scene.see("a browser", |members| members.len() == 1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let gateway =
        Gateway::new(&scene.client).lease_unchecked(LEASE).serve(listener, std::future::pending::<()>());
    let gateway = tokio::spawn(gateway);
    let (mut client, _) = connect_async(&url).await.unwrap();
    let used = scene.see("its session", |members| members.iter().any(|one| one.active == 1)).await;
    let used = used.iter().find(|one| one.active == 1).unwrap().worker.id.clone();
    outage(&server).await;
    let is_held = |one: &WorkerInfo| one.worker.id == used && one.active == 1;
    for _ in 0..2 {
        let now = scene.client.store().clock().now();
        let is_kept = |members: &[WorkerInfo]| members.iter().any(|one| is_held(one) && one.last_beat > now);
        scene.see("the session in place after a beat", is_kept).await;
    }
    client.send(Message::text(r#"{"id":1,"method":"Browser.getVersion"}"#)).await.unwrap();
    let answer = client.next().await.unwrap().unwrap();
    assert!(answer.to_text().unwrap().contains("Chrome"), "{answer}");
    gateway.abort();
    scene.abort();
}
