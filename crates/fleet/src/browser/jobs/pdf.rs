//! `pdf`: a page printed as PDF.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::run_on_page;
use crate::browser::error::PageError;
use crate::browser::lazy_browser::LazyBrowser;
use crate::browser::page::{PageResponse, VisitedPage};
use crate::browser::page_request::{PageRequest, WaitUntil};
use crate::cdp::{IoRead, PrintToPdf};

/// How many bytes of the document are read at a time.
const READ_CHUNK_BYTES: i64 = 1 << 18;

/// Visits a page and prints it as PDF.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pdf {
    /// The page's URL.
    pub url: String,
    /// Landscape orientation.
    #[serde(default)]
    pub landscape: bool,
    /// Print background colours and images.
    #[serde(default)]
    pub background: bool,
    /// Scale from 0.1 to 2. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Paper width in inches. Default: 8.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_width: Option<f64>,
    /// Paper height in inches. Default: 11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_height: Option<f64>,
    /// Margin on all sides in inches. Default: about 0.4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Page ranges such as `1-5, 8`. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// When the page is ready.
    #[serde(default)]
    pub wait: WaitUntil,
    /// Timeout in milliseconds. Default: 30,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

impl Pdf {
    /// Prints the page at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    fn check(&self) -> Result<PageRequest, PageError> {
        let limits = [
            ("scale", self.scale, 0.1, 2.0),
            ("paper_width", self.paper_width, 1.0, 200.0),
            ("paper_height", self.paper_height, 1.0, 200.0),
            ("margin", self.margin, 0.0, 20.0),
        ];
        for (field, value, least, most) in limits {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                return Err(PageError::Invalid(format!("{field}: must be from {least} to {most}")));
            }
        }
        let is_range = |pages: &str| pages.bytes().all(|b| b.is_ascii_digit() || b"-, ".contains(&b));
        if self.pages.as_deref().is_some_and(|pages| !is_range(pages)) {
            return Err(PageError::Invalid("pages: must be ranges, such as 1-5, 8".into()));
        }
        PageRequest::new(&self.url, &self.wait, self.timeout)
    }

    fn command(&self) -> PrintToPdf<'_> {
        PrintToPdf {
            landscape: Some(self.landscape),
            print_background: Some(self.background),
            scale: self.scale,
            paper_width: self.paper_width,
            paper_height: self.paper_height,
            margin_top: self.margin,
            margin_bottom: self.margin,
            margin_left: self.margin,
            margin_right: self.margin,
            page_ranges: self.pages.as_deref(),
            transfer_mode: Some("ReturnAsStream"),
        }
    }
}

/// The output of [`Pdf`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfOutput {
    /// The page's final URL.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The document, in base64.
    pub base64: String,
    /// Addresses that the page tried to reach and the policy refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for Pdf {
    const KIND: &'static str = "pdf";
    type Output = PdfOutput;
}

pub(super) async fn pdf(job: Pdf, lazy: LazyBrowser) -> Result<PdfOutput, Fail> {
    let work =
        async |page: &mut VisitedPage<'_>, response: &PageResponse| print_page(page, response, &job).await;
    run_on_page(&lazy, job.check(), work).await
}

async fn print_page(
    page: &mut VisitedPage<'_>,
    response: &PageResponse,
    job: &Pdf,
) -> Result<PdfOutput, PageError> {
    let printed = page.cdp.execute(&job.command()).await?;
    let base64 = match &printed.stream {
        Some(stream) => read_stream(page, stream).await?,
        None => printed.data,
    };
    page.check_output_size(base64.len())?;
    Ok(PdfOutput { url: page.cdp.url(), status: response.status, base64, refused: page.refused() })
}

/// Reads the document in chunks and encodes it in base64. Stops when it is larger than an output
/// may be.
async fn read_stream(page: &VisitedPage<'_>, stream: &str) -> Result<String, PageError> {
    let mut document = Vec::new();
    loop {
        let chunk = page.cdp.execute(&IoRead { handle: stream, size: READ_CHUNK_BYTES }).await?;
        if chunk.base64_encoded {
            STANDARD
                .decode_vec(&chunk.data, &mut document)
                .map_err(|error| PageError::Failed(format!("the browser: {error}")))?;
        } else {
            document.extend_from_slice(chunk.data.as_bytes());
        }
        // Base64 turns three bytes into four.
        page.check_output_size(document.len().div_ceil(3) * 4)?;
        if chunk.eof {
            return Ok(STANDARD.encode(document));
        }
    }
}
