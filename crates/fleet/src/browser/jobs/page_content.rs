//! `page_content`: the HTML of a page after its scripts have run.

use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::run_on_page;
use crate::browser::error::PageError;
use crate::browser::lazy_browser::LazyBrowser;
use crate::browser::page::{PageResponse, VisitedPage};
use crate::browser::page_request::{PageRequest, WaitUntil};

/// Visits a page and returns its HTML. The output contains the HTTP status, so a 4xx response is a
/// success.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageContent {
    /// The page's URL.
    pub url: String,
    /// When the page is ready.
    #[serde(default)]
    pub wait: WaitUntil,
    /// Timeout in milliseconds. Default: 30,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

impl PageContent {
    /// Returns the HTML of the page at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }
}

/// The output of [`PageContent`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageContentOutput {
    /// The page's final URL.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The page's title.
    pub title: String,
    /// The document's HTML.
    pub html: String,
    /// Addresses that the page tried to reach and the policy refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for PageContent {
    const KIND: &'static str = "page_content";
    type Output = PageContentOutput;
}

pub(super) async fn page_content(job: PageContent, lazy: LazyBrowser) -> Result<PageContentOutput, Fail> {
    let page = PageRequest::new(&job.url, &job.wait, job.timeout)
        .map(|page| PageRequest { accept_client_errors: true, ..page });
    run_on_page(&lazy, page, content).await
}

async fn content(
    page: &mut VisitedPage<'_>,
    response: &PageResponse,
) -> Result<PageContentOutput, PageError> {
    let script = "(_, most) => { \
        const title = document.title, doctype = document.doctype, root = document.documentElement; \
        const html = (doctype ? new XMLSerializer().serializeToString(doctype) + '\\n' : '') + (root ? root.outerHTML : ''); \
        const length = title.length + html.length; \
        return length > most ? { too_large: length } : [title, html]; }";
    let (title, html): (String, String) = page.call_function(script, "").await?;
    page.check_output_size(title.len() + html.len())?;
    Ok(PageContentOutput {
        url: page.cdp.url(),
        status: response.status,
        title,
        html,
        refused: page.refused(),
    })
}
