//! What becomes of a job whose page cannot be had.

use serde_json::{Value, json};
use tidemill_fleet::browser::UseBrowsers;

use crate::site::Site;
use crate::world::{Running, World};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_input_is_dead_at_once_and_needs_no_browser() {
    let world = World::new().await;
    world.client.store().part(&[crate::world::id("a")]).await.unwrap();
    let worker = world.built_in();
    let cases: [(&str, Value, &str); 13] = [
        ("navigate_extract", json!({ "url": "nowhere", "selector": "a" }), "relative URL"),
        ("navigate_extract", json!({ "url": "file:///etc/passwd", "selector": "a" }), "only http and https"),
        ("navigate_extract", json!({ "url": "data:text/html,x", "selector": "a" }), "only http and https"),
        ("navigate_extract", json!({ "url": "javascript:alert(1)", "selector": "a" }), "only http and https"),
        ("navigate_extract", json!({ "url": "ftp://a/", "selector": "a" }), "only http and https"),
        ("navigate_extract", json!({ "url": "http://a/", "selector": "" }), "selector: must not be empty"),
        ("navigate_extract", json!({ "url": "http://a/" }), "missing field `selector`"),
        (
            "navigate_extract",
            json!({ "url": "http://a/", "selector": "a", "al": true }),
            "unknown field `al`",
        ),
        (
            "navigate_extract",
            json!({ "url": "http://a/", "selector": "a", "html": true, "text": true }),
            "only one of",
        ),
        ("page_content", json!({ "url": "http://a/", "timeout": 0 }), "timeout: must be"),
        ("page_content", json!({ "url": "http://a/", "wait": [] }), "a number of milliseconds"),
        ("screenshot", json!({ "url": "http://a/", "format": "bmp" }), "unknown variant `bmp`"),
        ("pdf", json!({ "url": "http://a/", "scale": 9 }), "scale: must be"),
    ];
    for (kind, payload, expected) in cases {
        let (reason, error) = world.death(kind, payload.clone()).await;
        assert_eq!(reason, "invalid_payload", "{payload}");
        assert!(error.contains(expected), "{payload}: {error}");
    }
    assert_eq!(worker.stop().await.total.snoozed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_selector_is_dead_at_once() {
    let world = World::new().await;
    let (url, worker) = (world.site.page("/", "<p>"), world.built_in());
    for payload in
        [json!({ "url": &url, "selector": "p[" }), json!({ "url": &url, "selector": "p", "wait": "p[" })]
    {
        let (reason, error) = world.death("navigate_extract", payload).await;
        assert_eq!(reason, "invalid_payload");
        assert!(error.contains("not a valid selector"), "{error}");
    }
    assert_eq!(worker.stop().await.total.dead, 2);
}

/// What is tried again dies of having no attempt left.
async fn is_retried(world: &World, payload: Value, expected: &str) {
    let (reason, error) = world.death("navigate_extract", payload).await;
    assert_eq!(reason, "max_attempts_exceeded", "{error}");
    assert!(error.contains(expected), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_failures_of_the_network_and_busy_servers_are_retried() {
    let world = World::new().await;
    let worker = world.built_in();
    let nothing = json!({ "url": world.site.page("/", "<p>"), "selector": ".none", "timeout": 500 });
    is_retried(&world, nothing, "timeout: ").await;
    let never = json!({ "url": world.site.url("/never"), "selector": "p", "timeout": 500 });
    is_retried(&world, never, "timeout: ").await;
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let url = world.site.status("/busy", status);
        is_retried(&world, json!({ "url": url, "selector": "p" }), &format!("answered {}", &status[..3]))
            .await;
    }
    let cut = world.site.answer("/cut", "200 OK\r\ncontent-length: 10");
    is_retried(&world, json!({ "url": cut, "selector": "p" }), "").await;
    for url in ["http://no.such.host.invalid/", "https://no.such.host.invalid/"] {
        is_retried(&world, json!({ "url": url, "selector": "p" }), "no.such.host.invalid").await;
    }
    world.all_are_free().await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_retried_and_named() {
    let world = World::new().await;
    let closed = { Site::open().await.address };
    let worker = world.worker().browsers(world.browsers().allow(closed.to_string().parse().unwrap()));
    let worker = Running::start(worker.browser_jobs());
    for scheme in ["http", "https"] {
        let payload = json!({ "url": format!("{scheme}://{closed}/"), "selector": "p" });
        is_retried(&world, payload, "refused").await;
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_will_not_get_better_is_dead_at_once() {
    let world = World::new().await;
    let worker =
        Running::start(world.worker().browsers(world.browsers().max_output_bytes(1000)).browser_jobs());
    let missing = world.site.status("/missing", "404 Not Found");
    let download =
        world.site.answer("/file", "200 OK\r\ncontent-disposition: attachment\r\ncontent-length: 1\r\n\r\nx");
    let empty = world.site.answer("/empty", "204 No Content\r\n\r\n");
    let large = world.site.page("/large", &format!("<p>{}</p>", "x".repeat(2000)));
    let cases = [
        (json!({ "url": missing, "selector": "p" }), "http_status", "answered 404"),
        (json!({ "url": download, "selector": "p" }), "not_a_page", "is no page"),
        (json!({ "url": empty, "selector": "p" }), "not_a_page", "is no page"),
        (json!({ "url": large, "selector": "p" }), "output_too_large", "2000 bytes"),
    ];
    for (payload, expected, text) in cases {
        let (reason, error) = world.death("navigate_extract", payload).await;
        assert_eq!(reason, expected, "{error}");
        assert!(error.contains(text), "{error}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_measured_before_it_leaves_the_browser() {
    let world = World::new().await;
    let worker =
        Running::start(world.worker().browsers(world.browsers().max_output_bytes(1000)).browser_jobs());
    // Of two bytes each: who counts 2000 has counted characters, in the page.
    let text = world.site.page("/text", &format!("<p>{}", "\u{e9}".repeat(2000)));
    let many = world.site.page("/many", &format!("<p>{}", "x".repeat(100)).repeat(100));
    let none = world.site.page("/none", &"<p>".repeat(1000));
    let all = |url: &String| json!({ "url": url, "selector": "p", "all": true });
    for (kind, payload, expected) in [
        ("page_content", json!({ "url": text }), "the output has 20"),
        ("navigate_extract", json!({ "url": text, "selector": "p" }), "2000 bytes"),
        // Nobody counts on when it is too much already.
        ("navigate_extract", all(&many), "1100 bytes"),
        ("navigate_extract", all(&none), "1004 bytes"),
        ("pdf", json!({ "url": text }), "bytes"),
        ("screenshot", json!({ "url": text }), "bytes"),
    ] {
        let (reason, error) = world.death(kind, payload).await;
        assert_eq!(reason, "output_too_large", "{kind}: {error}");
        assert!(error.contains(expected), "{kind}: {error}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_cannot_change_how_it_is_looked_at() {
    let world = World::new().await;
    let lies = "<title>Tide</title><p>true</p><script>\
        const lie = { get: () => 'a lie', configurable: true };\
        Object.defineProperty(Element.prototype, 'outerHTML', lie);\
        Object.defineProperty(HTMLElement.prototype, 'innerText', lie);\
        Document.prototype.querySelector = () => { throw new Error('x'.repeat(1e6)); };\
        Document.prototype.querySelectorAll = () => [];</script>";
    let (url, worker) = (world.site.page("/", lies), world.built_in());
    let content = world.output(tidemill_fleet::browser::PageContent::new(&url)).await;
    assert!(content.html.contains("<p>true</p>"), "{}", content.html);
    let extracted = world.output(tidemill_fleet::browser::NavigateExtract::new(&url, "p")).await;
    assert_eq!(extracted.value, tidemill_fleet::browser::ExtractedValue::One(Some("true".into())));
    worker.stop().await;
}
