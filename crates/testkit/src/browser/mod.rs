//! A browser and its other side, for tests: the least that can be said to one, and a page for it to open.

mod cdp;
mod launch;
mod page;

pub use cdp::{Cdp, CdpError};
pub use launch::Browser;
pub use page::serve_page;
