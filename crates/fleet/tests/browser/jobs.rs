//! What the built-in jobs do when all is well.

use serde_json::json;
use tidemill_core::Job;
use tidemill_fleet::browser::{
    ExtractedValue, ImageFormat, NavigateExtract, PageContent, Pdf, Screenshot, WaitUntil,
};

use crate::world::World;

const HELLO: &str = "<!doctype html><title>Hello</title><body style='margin:0'><h1 class=content>Good <b>tide</b></h1>\
    <a href='/a'>one</a><a>two</a><div id=box style='width:40px;height:30px;background:red'></div>\
    <div style='height:3000px'></div></body>";

fn one(text: &str) -> ExtractedValue {
    ExtractedValue::One(Some(text.to_owned()))
}

fn job<J: Job>(payload: serde_json::Value) -> J {
    serde_json::from_value(payload).unwrap()
}

fn size(base64: &str) -> (u32, u32) {
    use base64::Engine;
    let png = base64::engine::general_purpose::STANDARD.decode(base64).unwrap();
    assert_eq!(&png[1..4], b"PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test(flavor = "multi_thread")]
async fn navigate_extract_takes_text_attributes_html_of_one_or_all() {
    let world = World::new().await;
    let (url, worker) = (world.site.page("/", HELLO), world.built_in());
    let seed: NavigateExtract = job(json!({ "url": &url, "selector": ".content" }));
    let extracted = world.output(seed).await;
    assert_eq!((extracted.value, extracted.status, extracted.url), (one("Good tide"), 200, url.clone()));
    let html = world.output(NavigateExtract { html: true, ..NavigateExtract::new(&url, ".content b") }).await;
    assert_eq!(html.value, one("<b>tide</b>"));
    let links =
        NavigateExtract { attribute: Some("href".into()), all: true, ..NavigateExtract::new(&url, "a") };
    assert_eq!(world.output(links.clone()).await.value, ExtractedValue::All(vec![Some("/a".into()), None]));
    let none = NavigateExtract { selector: ".none".into(), ..links };
    assert_eq!(world.output(none).await.value, ExtractedValue::All(Vec::new()));
    world.all_are_free().await;
    assert_eq!(worker.stop().await.total.done, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_waited_for_in_every_way() {
    let world = World::new().await;
    let worker = world.built_in();
    let late = "<body><script>setTimeout(() => document.body.innerHTML = '<p id=late>now</p>', 300)</script>";
    let url = world.site.page("/late", late);
    // What is looked for is waited for anyway.
    assert_eq!(world.output(NavigateExtract::new(&url, "#late")).await.value, one("now"));
    for wait in [WaitUntil::Millis(500), WaitUntil::NetworkIdle, WaitUntil::Selector("#late".into())] {
        let job = NavigateExtract { all: true, wait: wait.clone(), ..NavigateExtract::new(&url, "#late") };
        assert_eq!(world.output(job).await.value, ExtractedValue::All(vec![Some("now".into())]), "{wait:?}");
    }
    // The picture never comes, so the page never loads; what is waited for is there.
    let stuck = world.site.page("/stuck", "<p id=here>here</p><img src='/never'>");
    let job = NavigateExtract {
        wait: WaitUntil::Selector("#here".into()),
        ..NavigateExtract::new(&stuck, "#here")
    };
    assert_eq!(world.output(job).await.value, one("here"));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn page_content_tells_where_it_ended_with_what() {
    let world = World::new().await;
    let worker = world.built_in();
    let end = world.site.page("/end", HELLO);
    let url = world.site.redirect("/start", "/end");
    let content = world.output(PageContent::new(&url)).await;
    assert_eq!((content.url.as_str(), content.status, content.title.as_str()), (end.as_str(), 200, "Hello"));
    assert!(content.html.starts_with("<!DOCTYPE html>\n<html>") && content.html.contains("<b>tide</b>"));
    let gone = world.output(PageContent::new(world.site.status("/gone", "410 Gone"))).await;
    assert_eq!((gone.status, gone.html.contains("no")), (410, true));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screenshot_is_of_the_window_the_whole_page_or_one_element() {
    let world = World::new().await;
    let (url, worker) = (world.site.page("/", HELLO), world.built_in());
    assert_eq!(size(&world.output(Screenshot::new(&url)).await.base64), (1280, 720));
    let small = Screenshot { width: Some(320), height: Some(200), ..Screenshot::new(&url) };
    assert_eq!(size(&world.output(small.clone()).await.base64), (320, 200));
    let whole = world.output(Screenshot { full_page: true, ..small }).await;
    assert!(size(&whole.base64).1 > 3000);
    let element = Screenshot { selector: Some("#box".into()), ..Screenshot::new(&url) };
    assert_eq!(size(&world.output(element).await.base64), (40, 30));
    let jpeg = world.output(Screenshot { format: ImageFormat::Jpeg, ..Screenshot::new(&url) }).await;
    assert!(jpeg.base64.starts_with("/9j/"));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_printed() {
    let world = World::new().await;
    let (url, worker) = (world.site.page("/", HELLO), world.built_in());
    let printed = world.output(Pdf { landscape: true, ..Pdf::new(&url) }).await;
    assert!(printed.base64.starts_with("JVBERi0"), "a PDF begins with %PDF-");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_asks_its_reader_does_not_stand_still() {
    let world = World::new().await;
    let worker = world.built_in();
    let url =
        world.site.page("/", "<p>a</p><script>alert(1); document.title = 'asked ' + confirm('?')</script>");
    assert_eq!(world.output(PageContent::new(url)).await.title, "asked false");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_one_job_is_left_for_the_next() {
    let world = World::new().await;
    let worker = world.built_in();
    let script = "<p id=seen></p><script>seen.innerText = document.cookie + (localStorage.was ?? '-'); \
        document.cookie = 'was=here'; localStorage.was = 'here'</script>";
    let url = world.site.page("/", script);
    for _ in 0..2 {
        assert_eq!(world.output(NavigateExtract::new(&url, "#seen")).await.value, one("-"));
    }
    worker.stop().await;
}
