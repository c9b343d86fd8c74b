//! `pdf`: a page as it is printed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chromiumoxide::cdp::browser_protocol::io::{ReadParams, StreamHandle};
use chromiumoxide::cdp::browser_protocol::page::{
    PrintToPdfParams, PrintToPdfReturns, PrintToPdfTransferMode,
};
use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::at_page;
use crate::browse::failure::Failure;
use crate::browse::lender::Lender;
use crate::browse::tab::{Arrival, Tab};
use crate::browse::visit::{Visit, Wait};

/// How many bytes of a document are read at a time.
const PIECE: i64 = 1 << 18;

/// Visits a page and prints it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pdf {
    /// The page.
    pub url: String,
    /// Across, not upright.
    #[serde(default)]
    pub landscape: bool,
    /// With colours and pictures in the background.
    #[serde(default)]
    pub background: bool,
    /// How large, from 0.1 to 2 (1 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// How wide the paper is, in inches (8.5 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_width: Option<f64>,
    /// How high it is, in inches (11 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_height: Option<f64>,
    /// The margin on all sides, in inches (about 0.4 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Which pages, such as `1-5, 8` (all unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// When the page is ready.
    #[serde(default)]
    pub wait: Wait,
    /// How many milliseconds it may take (30,000 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

impl Pdf {
    /// Prints the page at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    fn check(&self) -> Result<Visit, Failure> {
        let limits = [
            ("scale", self.scale, 0.1, 2.0),
            ("paper_width", self.paper_width, 1.0, 200.0),
            ("paper_height", self.paper_height, 1.0, 200.0),
            ("margin", self.margin, 0.0, 20.0),
        ];
        for (field, value, least, most) in limits {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                return Err(Failure::Invalid(format!("{field}: must be from {least} to {most}")));
            }
        }
        let is_range = |pages: &str| pages.bytes().all(|b| b.is_ascii_digit() || b"-, ".contains(&b));
        if self.pages.as_deref().is_some_and(|pages| !is_range(pages)) {
            return Err(Failure::Invalid("pages: must be ranges, such as 1-5, 8".into()));
        }
        Visit::new(&self.url, &self.wait, self.timeout)
    }

    fn params(&self) -> PrintToPdfParams {
        PrintToPdfParams {
            landscape: Some(self.landscape),
            print_background: Some(self.background),
            scale: self.scale,
            paper_width: self.paper_width,
            paper_height: self.paper_height,
            margin_top: self.margin,
            margin_bottom: self.margin,
            margin_left: self.margin,
            margin_right: self.margin,
            page_ranges: self.pages.clone(),
            transfer_mode: Some(PrintToPdfTransferMode::ReturnAsStream),
            ..PrintToPdfParams::default()
        }
    }
}

/// What [`Pdf`] comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// Where the visit ended.
    pub url: String,
    /// What the server answered.
    pub status: u16,
    /// The document, in base64.
    pub base64: String,
    /// What the page wanted to reach and must not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for Pdf {
    const KIND: &'static str = "pdf";
    type Output = Printed;
}

pub(super) async fn pdf(job: Pdf, lender: Lender) -> Result<Printed, Fail> {
    let work = async |tab: &mut Tab<'_>, arrival: &Arrival| print(tab, arrival, &job).await;
    at_page(&lender, job.check(), work).await
}

async fn print(tab: &mut Tab<'_>, arrival: &Arrival, job: &Pdf) -> Result<Printed, Failure> {
    let base64 = match tab.page.execute(job.params()).await?.result {
        PrintToPdfReturns { stream: Some(stream), .. } => read(tab, stream).await?,
        PrintToPdfReturns { data, .. } => data.into(),
    };
    tab.fits(base64.len())?;
    Ok(Printed { url: tab.url(arrival).await?, status: arrival.status, base64, refused: tab.refused() })
}

/// Reads what was printed, in base64, piece by piece: no more than may be used gets here.
async fn read(tab: &Tab<'_>, stream: StreamHandle) -> Result<String, Failure> {
    let mut printed = Vec::new();
    loop {
        let read = ReadParams { handle: stream.clone(), offset: None, size: Some(PIECE) };
        let piece = tab.page.execute(read).await?.result;
        match piece.base64_encoded {
            Some(true) => STANDARD
                .decode_vec(&piece.data, &mut printed)
                .map_err(|error| Failure::Broken(format!("the browser: {error}")))?,
            _ => printed.extend_from_slice(piece.data.as_bytes()),
        }
        // Three bytes are four in base64.
        tab.fits(printed.len().div_ceil(3) * 4)?;
        if piece.eof {
            return Ok(STANDARD.encode(printed));
        }
    }
}
