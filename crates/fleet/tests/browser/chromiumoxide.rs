//! Handlers that drive pages with chromiumoxide.

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_fleet::browser::chromiumoxide::cdp::js_protocol::runtime::EventConsoleApiCalled;
use tidemill_fleet::browser::{Browser, UseBrowsers};
use tidemill_worker::Fail;

use crate::site::Site;
use crate::world::{Running, World};

/// Visits a page, and says what is told of it and what is not.
#[derive(Serialize, Deserialize)]
struct Drive {
    url: String,
}

impl Job for Drive {
    const KIND: &'static str = "drive";
    type Output = (Vec<usize>, Vec<String>, Vec<String>);
}

/// How long the lines are that a page writes to its console, up to the first that is empty.
async fn drive(job: Drive, browser: Browser) -> Result<<Drive as Job>::Output, Fail> {
    let driver = browser.chromiumoxide().await?;
    assert_eq!(driver.context().inner(), browser.context_id());
    let page = driver.blank().await?;
    let mut lines = page.event_listener::<EventConsoleApiCalled>().await?;
    page.goto(&job.url).await?;
    let mut lengths = Vec::new();
    while let Some(line) = lines.next().await {
        let text = line.args.first().and_then(|text| text.value.as_ref()).and_then(|text| text.as_str());
        match text.map_or(0, str::len) {
            0 => break,
            length => lengths.push(length),
        }
    }
    Ok((lengths, browser.oversized_messages(), browser.refused()))
}

#[tokio::test(flavor = "multi_thread")]
async fn chromiumoxide_drives_pages_in_the_jobs_context_within_the_frame_limit() {
    let (world, secret) = (World::new().await, Site::open().await);
    let running = Running::start(world.worker().browsers(world.browsers()).handle(drive));
    let script = format!(
        "<img src='http://{}/'><script>console.log('tide'); console.log('x'.repeat(34e6)); console.log('')</script>",
        secret.address
    );
    let (heard, oversized, refused) = world.output(Drive { url: world.site.page("/", &script) }).await;
    assert_eq!(heard, ["tide".len()]);
    assert!(oversized[0].starts_with("Runtime.consoleAPICalled (3400"), "{oversized:?}");
    assert_eq!((refused, secret.visits()), (vec![secret.address.to_string()], Vec::new()));
    world.all_are_free().await;
    running.stop().await;
}
