//! Jobs that use a browser: leased before the handler runs, released however it ends.
//!
//! A handler that takes a [`Browser`] gets one of the fleet's, with a fresh context in which nothing is left of earlier jobs:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidemill_core::{Job, Mill};
//! use tidemill_fleet::browse::{Browser, Browsers, UseBrowsers};
//! use tidemill_worker::{Fail, Worker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Title { url: String }
//! impl Job for Title { const KIND: &'static str = "title"; type Output = Option<String>; }
//!
//! async fn title(job: Title, browser: Browser) -> Result<Option<String>, Fail> {
//!     let page = browser.page(&job.url).await?;
//!     Ok(page.get_title().await?)
//! }
//!
//! # fn example(client: Mill) {
//! let worker = Worker::builder(&client).browsers(Browsers::new()).handle(title).queue("default", 4);
//! # drop(worker);
//! # }
//! ```
//!
//! [`browser_jobs`](UseBrowsers::browser_jobs) adds handlers for jobs that need no code: [`NavigateExtract`],
//! [`Screenshot`], [`Pdf`] and [`PageContent`].

mod browser;
mod browsers;
mod desk;
mod ears;
mod failure;
mod guard;
mod jobs;
mod keeper;
mod lender;
mod link;
mod navigation;
mod sieve;
mod sluice;
mod tab;
mod ticket;
mod visit;

pub use browser::Browser;
pub use browsers::{Browsers, UseBrowsers};
pub use chromiumoxide;
pub use guard::{InvalidRule, Reach, Rule};
pub use jobs::{
    Content, Extracted, ImageFormat, NavigateExtract, PageContent, Pdf, Picture, Printed, Screenshot, Value,
};
pub use lender::Lender;
pub use visit::Wait;
