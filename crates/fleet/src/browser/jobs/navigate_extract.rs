//! `navigate_extract`: text, attributes or HTML of elements on a page.

use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::run_on_page;
use crate::browser::error::PageError;
use crate::browser::lazy_browser::LazyBrowser;
use crate::browser::page::{PageResponse, VisitedPage, wait_for_selector};
use crate::browser::page_request::{PageRequest, WaitUntil, require_non_empty};

/// Visits a page and extracts the text, an attribute or the HTML of elements that match a selector.
///
/// By default it waits for the first match and extracts from that. With `all` it extracts from
/// every element that matches when the page is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NavigateExtract {
    /// The page's URL.
    pub url: String,
    /// A CSS selector.
    pub selector: String,
    /// Extract this attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// Extract the text. This is the default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub text: bool,
    /// Extract the HTML, including the element's own tag.
    #[serde(default, skip_serializing_if = "is_false")]
    pub html: bool,
    /// Extract from every element that matches.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
    /// When the page is ready.
    #[serde(default)]
    pub wait: WaitUntil,
    /// Timeout in milliseconds. Default: 30,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

impl NavigateExtract {
    /// Extracts the text of the first element that matches `selector`.
    pub fn new(url: impl Into<String>, selector: impl Into<String>) -> Self {
        Self { url: url.into(), selector: selector.into(), ..Self::default() }
    }

    fn check(&self) -> Result<PageRequest, PageError> {
        require_non_empty("selector", &self.selector)?;
        if usize::from(self.attribute.is_some()) + usize::from(self.text) + usize::from(self.html) > 1 {
            return Err(PageError::Invalid("only one of attribute, text and html can be extracted".into()));
        }
        self.attribute.as_deref().map_or(Ok(()), |name| require_non_empty("attribute", name))?;
        PageRequest::new(&self.url, &self.wait, self.timeout)
    }
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The extracted value or values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExtractedValue {
    /// Of the first element; `None` if it has no such attribute.
    One(Option<String>),
    /// Of every element.
    All(Vec<Option<String>>),
}

/// The output of [`NavigateExtract`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NavigateExtractOutput {
    /// The page's final URL.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The extracted value or values.
    pub value: ExtractedValue,
    /// Addresses that the page tried to reach and the policy refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for NavigateExtract {
    const KIND: &'static str = "navigate_extract";
    type Output = NavigateExtractOutput;
}

pub(super) async fn navigate_extract(
    job: NavigateExtract,
    lazy: LazyBrowser,
) -> Result<NavigateExtractOutput, Fail> {
    let work =
        async |page: &mut VisitedPage<'_>, response: &PageResponse| extract(page, response, &job).await;
    run_on_page(&lazy, job.check(), work).await
}

async fn extract(
    page: &mut VisitedPage<'_>,
    response: &PageResponse,
    job: &NavigateExtract,
) -> Result<NavigateExtractOutput, PageError> {
    if !job.all {
        wait_for_selector(&page.cdp, &job.selector).await?;
    }
    let values: Vec<Option<String>> = page.call_function(&script(job), &job.selector).await?;
    page.check_output_size(values.iter().flatten().map(String::len).sum())?;
    let value = if job.all {
        ExtractedValue::All(values)
    } else {
        ExtractedValue::One(values.into_iter().next().flatten())
    };
    Ok(NavigateExtractOutput { url: page.cdp.url(), status: response.status, value, refused: page.refused() })
}

fn script(job: &NavigateExtract) -> String {
    let part = match &job.attribute {
        Some(name) => format!("e.getAttribute({})", serde_json::Value::from(name.as_str())),
        None if job.html => "e.outerHTML".to_owned(),
        // What a reader sees. Elements other than HTML have no `innerText`.
        None => "(e.innerText ?? e.textContent)".to_owned(),
    };
    let last = if job.all { "" } else { "break;" };
    // Empty results count too: many of them are large.
    format!(
        "(s, most) => {{ const found = []; let length = 0; \
         for (const e of document.querySelectorAll(s)) {{ \
           const part = {part}; found.push(part); length += part === null ? 0 : part.length; \
           if (Math.max(length, 4 * found.length) > most) return {{ too_large: Math.max(length, 4 * found.length) }}; {last} }} \
         return found; }}"
    )
}
