//! The jobs that need no code of the user's: each a kind, a payload and an output.

mod navigate_extract;
mod page_content;
mod pdf;
mod screenshot;

pub use navigate_extract::{Extracted, NavigateExtract, Value};
pub use page_content::{Content, PageContent};
pub use pdf::{Pdf, Printed};
pub use screenshot::{ImageFormat, Picture, Screenshot};

use tidemill_worker::{Fail, WorkerBuilder};

use super::failure::Failure;
use super::lender::Lender;
use super::tab::{Arrival, Tab, visit};
use super::visit::Visit;

/// Adds the handlers of all of them.
pub(super) fn handle_all(worker: WorkerBuilder) -> WorkerBuilder {
    worker
        .handle(navigate_extract::navigate_extract)
        .handle(screenshot::screenshot)
        .handle(pdf::pdf)
        .handle(page_content::page_content)
}

/// Visits a page and does `work` there. What can be seen to be wrong without a browser needs none.
async fn at_page<T>(
    lender: &Lender,
    page: Result<Visit, Failure>,
    work: impl AsyncFnOnce(&mut Tab<'_>, &Arrival) -> Result<T, Failure>,
) -> Result<T, Fail> {
    let checked = page.and_then(|page| lender.check(&page.url).map(|()| page));
    let page = checked.map_err(|failure| failure.into_fail(&[], &[]))?;
    let browser = lender.browser().await?;
    let done = visit(&browser, &page, work).await;
    done.map_err(|failure| failure.into_fail(&browser.refused(), &browser.left_out()))
}
