//! Jobs that use a browser. The worker acquires it before the handler runs and releases it however
//! the handler ends.
//!
//! A handler that takes a [`Browser`] gets one of the fleet's, with a fresh browser context:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidemill_core::{Client, Job};
//! use tidemill_fleet::browser::{Browser, Browsers, UseBrowsers};
//! use tidemill_worker::{Fail, Worker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Title { url: String }
//! impl Job for Title { const KIND: &'static str = "title"; type Output = String; }
//!
//! async fn title(job: Title, browser: Browser) -> Result<String, Fail> {
//!     let page = browser.page(&job.url).await?;
//!     Ok(page.title().await?)
//! }
//!
//! # fn example(client: Client) {
//! let worker = Worker::builder(&client).browsers(Browsers::new()).handle(title).queue("default", 4);
//! # drop(worker);
//! # }
//! ```
//!
//! [`browser_jobs`](UseBrowsers::browser_jobs) adds handlers for jobs that need no code: [`NavigateExtract`],
//! [`Screenshot`], [`Pdf`] and [`PageContent`].

mod browsers;
#[cfg(feature = "chromiumoxide")]
mod chromiumoxide_browser;
mod connection;
mod egress;
mod error;
mod frame_limit;
mod jobs;
mod lazy_browser;
mod leased_browser;
mod navigation;
mod page;
mod page_events;
mod page_request;
mod pool;
#[cfg(feature = "chromiumoxide")]
mod relay;

pub use browsers::{Browsers, UseBrowsers};
#[cfg(feature = "chromiumoxide")]
pub use chromiumoxide;
#[cfg(feature = "chromiumoxide")]
pub use chromiumoxide_browser::ChromiumoxideBrowser;
pub use egress::{EgressPolicy, EgressRule, InvalidRule};
pub use jobs::{
    ExtractedValue, ImageFormat, NavigateExtract, NavigateExtractOutput, PageContent, PageContentOutput, Pdf,
    PdfOutput, Screenshot, ScreenshotOutput,
};
pub use lazy_browser::LazyBrowser;
pub use leased_browser::Browser;
pub use page_request::WaitUntil;

pub use crate::cdp::{BrowserError, BrowserPage, EventReceiver};
