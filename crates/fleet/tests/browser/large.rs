//! Pages that make their browser say more than a worker can hold.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_core::Job;
use tidemill_fleet::browser::{Browser, ExtractedValue, NavigateExtract, UseBrowsers, WaitUntil};
use tidemill_worker::Fail;

use crate::world::{Running, World, id};

/// More than a message may have.
const HUGE: &str = "'x'.repeat(34e6)";

/// Visits a page, and says what is told of it and what is not.
#[derive(Serialize, Deserialize)]
struct Listen {
    url: String,
}

impl Job for Listen {
    const KIND: &'static str = "listen";
    type Output = (Vec<usize>, Vec<String>);
}

/// How long the lines are that a page writes to its console, up to the first that is empty.
async fn listen(job: Listen, browser: Browser) -> Result<(Vec<usize>, Vec<String>), Fail> {
    let page = browser.blank().await?;
    let mut lines = page.events::<serde_json::Value>("Runtime.consoleAPICalled");
    page.goto(&job.url).await?;
    let mut lengths = Vec::new();
    while let Some(line) = lines.recv().await {
        match line?["args"][0]["value"].as_str().map_or(0, str::len) {
            0 => break,
            length => lengths.push(length),
        }
    }
    Ok((lengths, browser.oversized_messages()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_for_the_console_that_is_too_large_does_not_get_to_the_worker() {
    let world = World::new().await;
    let running = Running::start(world.worker().browsers(world.browsers()).handle(listen));
    let script = format!("<script>console.log('tide'); console.log({HUGE}); console.log('')</script>");
    let (heard, left_out) = world.output(Listen { url: world.site.page("/", &script) }).await;
    assert_eq!(heard, ["tide".len()]);
    assert!(left_out[0].starts_with("Runtime.consoleAPICalled (3400"), "{left_out:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_does_anything_huge_is_a_page_like_any_other() {
    let world = World::new().await;
    let worker = world.built_in();
    for script in [
        format!("console.log({HUGE})"),
        format!("setTimeout(() => {{ throw new Error({HUGE}) }})"),
        format!("document.title = {HUGE}"),
        format!("location.hash = {HUGE}"),
        format!("alert({HUGE})"),
        format!("fetch('data:,' + {HUGE})"),
        format!("fetch('/post', {{ method: 'POST', body: {HUGE} }})"),
        format!("const f = document.createElement('iframe'); f.name = {HUGE}; document.body.append(f)"),
        format!("new Worker('data:text/javascript,1', {{ name: {HUGE} }})"),
        format!("open('about:blank', {HUGE})"),
    ] {
        let url = world.site.page("/", &format!("<body><p>tide</p><script>{script}</script>"));
        let job = NavigateExtract { wait: WaitUntil::Selector("p".into()), ..NavigateExtract::new(url, "p") };
        assert_eq!(world.output(job).await.value, ExtractedValue::One(Some("tide".into())), "{script}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_says_what_was_left_out() {
    let world = World::new().await;
    let worker = world.built_in();
    // Nobody hears that it asks, so nobody says no, and it stands still.
    let url = world.site.page("/", &format!("<script>prompt('', {HUGE})</script><p>tide</p>"));
    let job = json!({ "url": url, "selector": "p", "timeout": 5000 });
    let (reason, error) = world.death("navigate_extract", job).await;
    assert_eq!(reason, "max_attempts_exceeded", "{error}");
    assert!(error.starts_with("timeout: "), "{error}");
    assert!(error.contains("(left out, too large: Page.javascriptDialogOpening (340"), "{error}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_too_large_only_on_its_way_is_dead_at_once() {
    let world = World::new().await;
    let worker = world.built_in();
    // Six bytes each until they are read.
    let script =
        "<p>tide</p><script>document.querySelector('p').textContent = '\\u0001'.repeat(6e6)</script>";
    let job = json!({ "url": world.site.page("/", script), "selector": "p" });
    let (reason, error) = world.death("navigate_extract", job).await;
    assert_eq!(reason, "output_too_large", "{error}");
    assert!(error.contains("bytes, more than the 33554432 it may have"), "{error}");
    worker.stop().await;
}

/// Asks a page for too much, and then for a little.
#[derive(Serialize, Deserialize)]
struct Ask;

impl Job for Ask {
    const KIND: &'static str = "ask";
    type Output = (String, u32);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_fails_its_command_only() {
    let world = World::new().await;
    let handler = async |_: Ask, browser: Browser| -> Result<(String, u32), Fail> {
        let page = browser.blank().await?;
        let error = page.evaluate::<String>(HUGE).await.unwrap_err();
        Ok((error.to_string(), page.evaluate("6 * 7").await?))
    };
    let running = Running::start(world.worker().browsers(world.browsers()).handle(handler));
    let (error, answer) = world.output(Ask).await;
    assert!(error.contains("the answer has 3400") && error.contains("more than the 33554432"), "{error}");
    assert_eq!(answer, 42);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_share_a_browser_with_such_a_page_are_not_harmed() {
    let world = World::new().await;
    let member = world.client.store().get_worker(&id("a")).await.unwrap().unwrap().worker;
    let room = tidemill_core::fleet::Capacity { concurrent: 2, lifetime: 0 };
    world
        .client
        .store()
        .join(&[tidemill_core::store::fleet::WorkerEntry { capacity: room, ..member }])
        .await
        .unwrap();
    let worker = world.built_in();
    let quiet = world
        .site
        .page("/quiet", "<p>tide</p><script>setTimeout(() => document.title = 'late', 3000)</script>");
    let quiet =
        NavigateExtract { wait: WaitUntil::Selector("title".into()), ..NavigateExtract::new(quiet, "p") };
    let quiet = world.client.job(quiet).max_attempts(1).enqueue().await.unwrap();
    world.site.is_visited("/quiet").await;
    let huge = format!(
        "<p>x</p><script>new Worker('data:text/javascript,1', {{ name: {HUGE} }}); console.log({HUGE})</script>"
    );
    let loud = NavigateExtract::new(world.site.page("/loud", &huge), "p");
    assert_eq!(world.output(loud).await.value, ExtractedValue::One(Some("x".into())));
    let heard = tokio::time::timeout(Duration::from_secs(60), quiet.wait()).await.unwrap().unwrap();
    assert_eq!(heard.value, ExtractedValue::One(Some("tide".into())));
    worker.stop().await;
}
