//! A handler's browser is leased before it runs, and released however it ends.

use std::future::pending;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_core::store::fleet::{WorkerEntry, WorkerStatus};
use tidemill_fleet::browser::{Browser, UseBrowsers};
use tidemill_worker::{EventKind, Fail, JobContext};

use crate::launcher::Chromium;
use crate::world::{Running, World, id, patiently};

/// A job that ends as it is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Act {
    url: String,
    how: How,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum How {
    Well,
    Panic,
    Never,
}

impl Job for Act {
    const KIND: &'static str = "act";
    type Output = String;
}

async fn act(job: Act, browser: Browser, cx: JobContext) -> Result<String, Fail> {
    assert_eq!((browser.worker(), cx.attempt()), (&id("a"), 1));
    let page = browser.page(&job.url).await?;
    match job.how {
        How::Well => Ok(page.title().await?),
        How::Panic => panic!("as told"),
        How::Never => pending().await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_is_released_after_success_panic_timeout_and_cancel() {
    let world = World::new().await;
    let url = world.site.page("/", "<title>Tide</title>");
    let mut running = Running::start(world.worker().browsers(world.browsers()).handle(act));
    let act = |how| world.client.job(Act { url: url.clone(), how }).max_attempts(1);
    let well = act(How::Well).enqueue().await.unwrap();
    assert_eq!(patiently(well.wait()).await.unwrap(), "Tide");
    world.all_are_free().await;
    act(How::Panic).enqueue().await.unwrap();
    running.next().await;
    assert_eq!(running.next().await.outcome, EventKind::Dead);
    world.all_are_free().await;
    act(How::Never).timeout(Duration::from_millis(800)).enqueue().await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Dead);
    world.all_are_free().await;
    let cancelled = act(How::Never).enqueue().await.unwrap();
    let session = held(&world).await;
    assert!(String::from_utf8_lossy(&session.detail).contains(cancelled.id().as_str()));
    world.client.store().cancel(cancelled.id()).await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Cancelled);
    world.all_are_free().await;
    running.stop().await;
}

/// The one session that there is.
async fn held(world: &World) -> tidemill_core::store::fleet::SessionInfo {
    patiently(async {
        loop {
            if let Some(session) = world.sessions().await.pop() {
                return session;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_stand_in_line_for_the_one_browser() {
    let world = World::new().await;
    let url = world.site.page("/", "<title>Tide</title>");
    let running = Running::start(world.worker().browsers(world.browsers()).handle(act));
    let jobs = world.client.jobs((0..6).map(|_| Act { url: url.clone(), how: How::Well }));
    for job in jobs.enqueue().await.unwrap() {
        assert_eq!(patiently(world.client.job_handle::<Act>(job).wait()).await.unwrap(), "Tide");
    }
    assert_eq!(running.stop().await.total.snoozed, 0);
    world.all_are_free().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_browser_goes_back_uncounted() {
    let world = World::new().await;
    world.client.store().part(&[id("a")]).await.unwrap();
    let url = world.site.page("/", "<title>Tide</title>");
    let browsers = world.browsers().wait(Duration::from_millis(100));
    let mut running = Running::start(world.worker().browsers(browsers).handle(act));
    let job = world.client.job(Act { url, how: How::Well }).max_attempts(1).enqueue().await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Snoozed);
    assert_eq!(world.last_error(job.id()).await.unwrap(), "no browser: none is in the fleet");
    world.enter("a", &world.chromium.endpoint).await;
    assert_eq!(patiently(job.wait()).await.unwrap(), "Tide");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_does_not_answer_is_passed_over() {
    let world = World::new().await;
    let url = world.site.page("/", "<title>Tide</title>");
    // One that hangs up on whoever connects is all there is at first.
    world.client.store().part(&[id("a")]).await.unwrap();
    let broken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.enter("broken", &format!("ws://{}/", broken.local_addr().unwrap())).await;
    let running = Running::start(world.worker().browsers(world.browsers()).handle(act));
    let job = world.client.job(Act { url, how: How::Well }).max_attempts(1).enqueue().await.unwrap();
    drop(patiently(broken.accept()).await.unwrap());
    world.enter("a", &world.chromium.endpoint).await;
    assert_eq!(patiently(job.wait()).await.unwrap(), "Tide");
    running.stop().await;
}

/// How many sessions a browser has had.
async fn lifetime(world: &World, name: &str) -> u64 {
    world.client.store().get_worker(&id(name)).await.unwrap().unwrap().lifetime
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_on_other_machines_are_not_even_leased_without_a_proxy_they_can_reach() {
    let world = World::new().await;
    world.client.store().part(&[id("a")]).await.unwrap();
    world.enter("far", "ws://192.0.2.1:9222/").await;
    let mut running = Running::start(world.worker().browsers(world.browsers()).handle(act));
    let job = world.client.job(Act { url: String::new(), how: How::Well }).enqueue().await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Snoozed);
    let error = world.last_error(job.id()).await.unwrap();
    assert!(error.contains("on another machine") && error.contains("--proxy-listen"), "{error}");
    assert_eq!(lifetime(&world, "far").await, 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_on_another_machine_is_given_back_and_the_job_tries_no_other() {
    let world = World::new().await;
    // One is here, so that a lease is worth a try, but takes no clients.
    let here = world.client.store().get_worker(&id("a")).await.unwrap().unwrap().worker;
    world.client.store().join(&[WorkerEntry { status: WorkerStatus::Draining, ..here }]).await.unwrap();
    let far = ["far", "farther"];
    world.enter(far[0], "ws://192.0.2.1:9222/").await;
    world.enter(far[1], "ws://192.0.2.2:9222/").await;
    let mut running = Running::start(world.worker().browsers(world.browsers()).handle(act));
    let job = world.client.job(Act { url: String::new(), how: How::Well }).enqueue().await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Snoozed);
    let error = world.last_error(job.id()).await.unwrap();
    assert!(error.contains("chromium:far") && error.contains("--proxy-listen"), "{error}");
    running.stop().await;
    assert_eq!(lifetime(&world, far[0]).await + lifetime(&world, far[1]).await, 1);
    world.all_are_free().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_back_after_a_few_browsers_that_do_not_answer() {
    let world = World::new().await;
    world.client.store().part(&[id("a")]).await.unwrap();
    let broken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for name in ["b", "c", "d", "e", "f", "g"] {
        world.enter(name, &format!("ws://{}/", broken.local_addr().unwrap())).await;
    }
    let mut running = Running::start(world.worker().browsers(world.browsers()).handle(act));
    let job = world.client.job(Act { url: String::new(), how: How::Well }).enqueue().await.unwrap();
    let mut tries = 0;
    let outcome = loop {
        tokio::select! {
            hung_up = broken.accept() => { drop(hung_up); tries += 1; }
            event = running.next() => break event.outcome,
        }
    };
    assert_eq!((outcome, tries), (EventKind::Snoozed, 4));
    assert!(world.last_error(job.id()).await.unwrap().starts_with("no browser could be used; chromium:"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_open_its_proxy_leases_nothing() {
    let world = World::new().await;
    let browsers = world.browsers().proxy_at("192.0.2.7".parse().unwrap(), "worker-1");
    let mut running = Running::start(world.worker().browsers(browsers).handle(act));
    let job = world.client.job(Act { url: String::new(), how: How::Well }).enqueue().await.unwrap();
    assert_eq!(running.next().await.outcome, EventKind::Snoozed);
    let error = world.last_error(job.id()).await.unwrap();
    assert!(error.contains("cannot open a proxy where --proxy-listen"), "{error}");
    assert_eq!(lifetime(&world, "a").await, 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_somebody_closes_fails_the_attempt_at_once() {
    let world = World::new().await;
    let handler = async |job: Act, browser: Browser| -> Result<String, Fail> {
        // Never answered.
        browser.page(&job.url).await?;
        Ok(String::new())
    };
    let running = Running::start(world.worker().browsers(world.browsers()).handle(handler));
    let url = world.site.url("/never");
    let job = world.client.job(Act { url, how: How::Well }).max_attempts(1).enqueue().await.unwrap();
    world.site.is_visited("/never").await;
    let session = held(&world).await.session;
    assert!(world.client.store().close(&session).await.unwrap());
    patiently(job.wait()).await.unwrap_err();
    world.all_are_free().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_dies_fails_the_attempt_and_the_next_gets_another() {
    let mut world = World::new().await;
    let running = world.built_in();
    let job = tidemill_fleet::browser::PageContent::new(world.site.url("/late"));
    let job = world.client.job(job).enqueue().await.unwrap();
    world.site.is_visited("/late").await;
    world.chromium.kill().await;
    world.site.page("/late", "<title>again</title>");
    let next = Chromium::start().await;
    world.client.store().part(&[id("a")]).await.unwrap();
    world.enter("b", &next.endpoint).await;
    assert_eq!(patiently(job.wait()).await.unwrap().title, "again");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_kept_for_as_long_as_a_job_runs_and_released_at_shutdown() {
    let world = World::new().await;
    let url = world.site.page("/", "<title>Tide</title>");
    let browsers = world.browsers().lease_unchecked(Duration::from_secs(1));
    let worker = world.worker().browsers(browsers).handle(act).shutdown_grace(Duration::ZERO);
    let running = Running::start(worker.cancel_grace(Duration::ZERO));
    world.client.job(Act { url, how: How::Never }).enqueue().await.unwrap();
    let first = held(&world).await;
    patiently(async {
        while world.sessions().await.first().is_some_and(|session| session.until.0 < first.until.0 + 1500) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(held(&world).await.session, first.session);
    running.stop().await;
    assert!(world.sessions().await.is_empty(), "released before the worker has ended");
}

#[tokio::test]
async fn a_handler_that_takes_a_browser_says_what_is_missing() {
    let client = tidemill_core::Client::new(std::sync::Arc::new(
        tidemill_sqlite::SqliteStore::open(tidemill_sqlite::SqliteOptions::memory()).await.unwrap(),
    ));
    let worker = tidemill_worker::Worker::builder(&client).queue("default", 1).handle(act);
    let error = worker.build().unwrap_err().to_string();
    let expected = "the handler of kind `act` takes `Browser`, which was not provided: add it with `.browsers(Browsers::new())`";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_worker_with_too_short_a_lease_for_browsers_is_not_built() {
    let client = tidemill_core::Client::new(std::sync::Arc::new(
        tidemill_sqlite::SqliteStore::open(tidemill_sqlite::SqliteOptions::memory()).await.unwrap(),
    ));
    let worker = |lease| {
        let browsers = tidemill_fleet::browser::Browsers::new().lease(Duration::from_secs(lease));
        tidemill_worker::Worker::builder(&client).queue("default", 1).browsers(browsers).handle(act).build()
    };
    assert!(worker(14).is_ok());
    assert!(worker(5).unwrap_err().to_string().starts_with("a lease of 5s is too short"));
}
