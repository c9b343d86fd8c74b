//! Jobs that use a browser: one with its own handler, one without.
//!
//! It needs a browser in the fleet: `tidemill --store sqlite:links.db browser`, in another
//! terminal.
//!
//! ```sh
//! cargo run -p tidemill --features fleet --example links
//! ```

#![allow(clippy::print_stdout, reason = "an example talks on standard output")]

use serde::{Deserialize, Serialize};
use tidemill::browser::{Browser, Browsers, NavigateExtract, UseBrowsers};
use tidemill::{Fail, Job, Worker, secs};

/// Reads the links of a page.
#[derive(Serialize, Deserialize)]
struct Links {
    url: String,
}

impl Job for Links {
    const KIND: &'static str = "links";
    type Output = Vec<String>;
}

/// The browser is leased before the handler runs, and released when the handler ends.
async fn links(job: Links, browser: Browser) -> Result<Vec<String>, Fail> {
    let page = browser.page(&job.url).await?;
    let script = "Array.from(document.links).map(link => link.href)";
    Ok(page.evaluate(script).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = tidemill::connect("sqlite:links.db").await?;
    let url = std::env::args().nth(1).unwrap_or_else(|| "https://example.com".into());
    let found = client.job(Links { url: url.clone() }).enqueue().await?;
    let title = client.job(NavigateExtract::new(url, "h1")).enqueue().await?;
    let browsers = Browsers::new().wait(secs(60));
    let worker = Worker::builder(&client).browsers(browsers).browser_jobs().handle(links).queue("default", 4);
    let answers = async {
        println!("links: {:?}", found.wait().await);
        println!("title: {:?}", title.wait().await);
    };
    worker.run_until(answers).await?;
    Ok(())
}
