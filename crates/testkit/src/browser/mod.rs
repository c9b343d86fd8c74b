//! A browser's other side, for tests: the least that can be said to one, and a page for it to open.

mod cdp;
mod page;

pub use cdp::{Cdp, CdpError};
pub use page::serve_page;
