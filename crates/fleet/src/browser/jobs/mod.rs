//! The built-in browser jobs: each has a kind, a payload and an output.

mod navigate_extract;
mod page_content;
mod pdf;
mod screenshot;

pub use navigate_extract::{ExtractedValue, NavigateExtract, NavigateExtractOutput};
pub use page_content::{PageContent, PageContentOutput};
pub use pdf::{Pdf, PdfOutput};
pub use screenshot::{ImageFormat, Screenshot, ScreenshotOutput};

use tidemill_worker::{Fail, WorkerBuilder};

use super::error::PageError;
use super::lazy_browser::LazyBrowser;
use super::page::{PageResponse, VisitedPage, visit_page};
use super::page_request::PageRequest;

/// Adds the handlers of all built-in jobs.
pub(super) fn handle_all(worker: WorkerBuilder) -> WorkerBuilder {
    worker
        .handle(navigate_extract::navigate_extract)
        .handle(screenshot::screenshot)
        .handle(pdf::pdf)
        .handle(page_content::page_content)
}

/// Visits a page and runs `work` on it. An invalid payload fails before a browser is acquired.
async fn run_on_page<T>(
    lazy: &LazyBrowser,
    request: Result<PageRequest, PageError>,
    work: impl AsyncFnOnce(&mut VisitedPage<'_>, &PageResponse) -> Result<T, PageError>,
) -> Result<T, Fail> {
    let checked = request.and_then(|request| lazy.check_url(&request.url).map(|()| request));
    let request = checked.map_err(|error| error.into_fail(&[], &[]))?;
    let browser = lazy.acquire().await?;
    let result = visit_page(&browser, &request, work).await;
    result.map_err(|error| error.into_fail(&browser.refused(), &browser.oversized_messages()))
}
