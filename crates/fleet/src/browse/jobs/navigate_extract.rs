//! `navigate_extract`: what a page says in some place.

use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::at_page;
use crate::browse::failure::Failure;
use crate::browse::lender::Lender;
use crate::browse::tab::{Arrival, Tab, appears};
use crate::browse::visit::{Visit, Wait, present};

/// Visits a page and extracts the text (or an attribute, or the HTML) of what matches a selector.
///
/// Of several elements that match, the first counts, and it is waited for; with `all` they all count, and as many as there
/// are when the page is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NavigateExtract {
    /// The page.
    pub url: String,
    /// What to look for, in CSS.
    pub selector: String,
    /// Extract this attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// Extract the text; what is done if nothing else is said.
    #[serde(default, skip_serializing_if = "is_false")]
    pub text: bool,
    /// Extract the HTML, the element's own tag included.
    #[serde(default, skip_serializing_if = "is_false")]
    pub html: bool,
    /// Extract from every element that matches.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
    /// When the page is ready.
    #[serde(default)]
    pub wait: Wait,
    /// How many milliseconds it may take (30,000 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

impl NavigateExtract {
    /// Extracts the text of the first element that matches `selector`.
    pub fn new(url: impl Into<String>, selector: impl Into<String>) -> Self {
        Self { url: url.into(), selector: selector.into(), ..Self::default() }
    }

    fn check(&self) -> Result<Visit, Failure> {
        present("selector", &self.selector)?;
        if usize::from(self.attribute.is_some()) + usize::from(self.text) + usize::from(self.html) > 1 {
            return Err(Failure::Invalid("only one of attribute, text and html can be extracted".into()));
        }
        self.attribute.as_deref().map_or(Ok(()), |name| present("attribute", name))?;
        Visit::new(&self.url, &self.wait, self.timeout)
    }
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// What was extracted: of one element or of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Of the first; none if it has no such attribute.
    One(Option<String>),
    /// Of every one.
    All(Vec<Option<String>>),
}

/// What [`NavigateExtract`] comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extracted {
    /// Where the visit ended.
    pub url: String,
    /// What the server answered.
    pub status: u16,
    /// What was extracted.
    pub value: Value,
    /// What the page wanted to reach and must not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for NavigateExtract {
    const KIND: &'static str = "navigate_extract";
    type Output = Extracted;
}

pub(super) async fn navigate_extract(job: NavigateExtract, lender: Lender) -> Result<Extracted, Fail> {
    let work = async |tab: &mut Tab<'_>, arrival: &Arrival| extract(tab, arrival, &job).await;
    at_page(&lender, job.check(), work).await
}

async fn extract(tab: &mut Tab<'_>, arrival: &Arrival, job: &NavigateExtract) -> Result<Extracted, Failure> {
    if !job.all {
        appears(&tab.page, &job.selector).await?;
    }
    let found: Vec<Option<String>> = tab.call(&script(job), &job.selector).await?;
    tab.fits(found.iter().flatten().map(String::len).sum())?;
    let value = if job.all { Value::All(found) } else { Value::One(found.into_iter().next().flatten()) };
    Ok(Extracted { url: tab.url(arrival).await?, status: arrival.status, value, refused: tab.refused() })
}

fn script(job: &NavigateExtract) -> String {
    let part = match &job.attribute {
        Some(name) => format!("e.getAttribute({})", serde_json::Value::from(name.as_str())),
        None if job.html => "e.outerHTML".to_owned(),
        // What a reader sees; elements that are no HTML have no such thing.
        None => "(e.innerText ?? e.textContent)".to_owned(),
    };
    let last = if job.all { "" } else { "break;" };
    // Nothing, many times over, is a lot as well.
    format!(
        "(s, most) => {{ const found = []; let length = 0; \
         for (const e of document.querySelectorAll(s)) {{ \
           const part = {part}; found.push(part); length += part === null ? 0 : part.length; \
           if (Math.max(length, 4 * found.length) > most) return {{ too_large: Math.max(length, 4 * found.length) }}; {last} }} \
         return found; }}"
    )
}
