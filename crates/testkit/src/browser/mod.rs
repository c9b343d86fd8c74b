//! A browser for tests, a minimal client for it, and a page to open.

mod cdp;
mod launch;
mod page;

pub use cdp::{Cdp, CdpError};
pub use launch::Browser;
pub use page::serve_page;
