//! `page_content`: a page as it is after its code has run.

use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::at_page;
use crate::browse::failure::Failure;
use crate::browse::lender::Lender;
use crate::browse::tab::{Arrival, Tab};
use crate::browse::visit::{Visit, Wait};

/// Visits a page and brings back its HTML. Since the output says what the server answered, an answer of 4xx is as good as
/// any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageContent {
    /// The page.
    pub url: String,
    /// When the page is ready.
    #[serde(default)]
    pub wait: Wait,
    /// How many milliseconds it may take (30,000 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

impl PageContent {
    /// Brings back the page at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }
}

/// What [`PageContent`] comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Where the visit ended.
    pub url: String,
    /// What the server answered.
    pub status: u16,
    /// The page's title.
    pub title: String,
    /// The document.
    pub html: String,
    /// What the page wanted to reach and must not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for PageContent {
    const KIND: &'static str = "page_content";
    type Output = Content;
}

pub(super) async fn page_content(job: PageContent, lender: Lender) -> Result<Content, Fail> {
    let page = Visit::new(&job.url, &job.wait, job.timeout).map(|page| Visit { any_status: true, ..page });
    at_page(&lender, page, content).await
}

async fn content(tab: &mut Tab<'_>, arrival: &Arrival) -> Result<Content, Failure> {
    let script = "(_, most) => { \
        const title = document.title, doctype = document.doctype, root = document.documentElement; \
        const html = (doctype ? new XMLSerializer().serializeToString(doctype) + '\\n' : '') + (root ? root.outerHTML : ''); \
        const length = title.length + html.length; \
        return length > most ? { too_large: length } : [title, html]; }";
    let (title, html): (String, String) = tab.call(script, "").await?;
    tab.fits(title.len() + html.len())?;
    Ok(Content { url: tab.url(arrival).await?, status: arrival.status, title, html, refused: tab.refused() })
}
