//! What a handler can do with a page of its own.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidemill_core::Job;
use tidemill_fleet::browser::{Browser, BrowserError, UseBrowsers};
use tidemill_worker::Fail;

use crate::world::{Running, World};

/// Does everything with pages of a site.
#[derive(Serialize, Deserialize)]
struct Drive {
    site: String,
}

impl Job for Drive {
    const KIND: &'static str = "drive_page";
    type Output = String;
}

async fn drive(job: Drive, browser: Browser) -> Result<String, Fail> {
    let at = |path: &str| format!("{}{path}", job.site);
    let page = browser.page(&at("/moves")).await?;
    assert_eq!((page.title().await?.as_str(), page.url()), ("Tide", at("/end")), "where the page itself led");
    page.goto(&at("/end#part")).await?;
    assert_eq!(page.url(), at("/end#part"));
    assert!(page.content().await?.starts_with("<!DOCTYPE html><html>"));
    assert_eq!(&page.screenshot().await?[1..4], b"PNG");
    assert!(page.pdf().await?.starts_with(b"%PDF-"));
    let numbers: Vec<u32> = page.evaluate("Promise.resolve([1, 2])").await?;
    assert_eq!((numbers, page.evaluate::<Option<u32>>("undefined").await?), (vec![1, 2], None));
    let thrown = page.evaluate::<()>("nothing.at.all").await;
    assert!(matches!(thrown, Err(BrowserError::Script(error)) if error.starts_with("ReferenceError")));
    let unknown = page.call("Page.noSuchCommand", json!({})).await;
    assert!(matches!(unknown, Err(BrowserError::Command { code: -32601, .. })), "{unknown:?}");
    let download = page.goto(&at("/file")).await.unwrap_err();
    assert_eq!(download.to_string(), format!("{}: net::ERR_ABORTED", at("/file")));
    // Dialogs are dismissed, unless they are received.
    assert!(!page.evaluate::<bool>("confirm('?')").await?);
    let mut dialogs = page.events::<Value>("Page.javascriptDialogOpening");
    let accept = async {
        let dialog = dialogs.recv().await.unwrap()?;
        page.call("Page.handleJavaScriptDialog", json!({ "accept": true })).await?;
        Ok::<_, BrowserError>(dialog["message"].clone())
    };
    assert_eq!(tokio::try_join!(page.evaluate::<bool>("confirm('!')"), accept)?, (true, json!("!")));
    let other = page.clone();
    page.close().await?;
    assert!(dialogs.recv().await.is_none());
    assert!(other.title().await.is_err());
    let version = browser.call("Browser.getVersion", json!({})).await?;
    Ok(version["product"].to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_drives_pages_of_its_own() {
    let world = World::new().await;
    let site = world.site.url("");
    world.site.page("/moves", "<script>location = '/end'</script><img src='/never'>");
    world.site.page("/end", "<!doctype html><title>Tide</title>");
    world.site.answer("/file", "200 OK\r\ncontent-disposition: attachment\r\ncontent-length: 1\r\n\r\nx");
    let running = Running::start(world.worker().browsers(world.browsers()).handle(drive));
    let product = world.output(Drive { site }).await;
    assert!(product.contains("Chrome"), "{product}");
    world.all_are_free().await;
    running.stop().await;
}
