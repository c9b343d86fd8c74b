//! A client of the Chrome DevTools Protocol (CDP): one connection to a browser, and its pages.
//!
//! It has types for the commands and events that browser jobs need, and [`BrowserPage::call`] and
//! [`BrowserPage::events`] for all others. It knows nothing of leases, jobs and proxies.

mod command;
mod connection;
mod error;
mod event;
mod page;
mod page_state;
mod receiver;
#[cfg(test)]
mod tests;

pub(crate) use command::{
    CaptureScreenshot, Clip, CreateBrowserContext, IoRead, PrintToPdf, SetDeviceMetricsOverride,
    SetDownloadBehavior,
};
pub(crate) use connection::{COMMAND_TIMEOUT, CdpConnection, CdpDriver, EventSink};
pub use error::BrowserError;
pub(crate) use event::{CdpEvent, FrameNavigated, FrameScheduledNavigation, ResponseReceived};
pub use page::BrowserPage;
pub(crate) use page::Navigated;
pub use receiver::EventReceiver;
