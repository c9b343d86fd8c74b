//! `screenshot`: a page as it looks.

use chromiumoxide::cdp::browser_protocol::page::{
    CaptureScreenshotFormat, CaptureScreenshotParams, Viewport,
};
use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::at_page;
use crate::browse::failure::Failure;
use crate::browse::lender::Lender;
use crate::browse::tab::{Arrival, Tab, appears};
use crate::browse::visit::{Visit, Wait, present};

/// The largest window, in pixels a side.
const LARGEST: u32 = 8192;

/// The longest picture of a whole page: what lies below is cut off. More than this no browser draws.
const LONGEST: f64 = 16384.0;

/// The most pixels of a picture: a page may be drawn so that no format makes it small.
const MOST_PIXELS: f64 = 33_554_432.0;

/// Visits a page and takes a picture of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Screenshot {
    /// The page.
    pub url: String,
    /// All of the page, not only what the window shows.
    #[serde(default)]
    pub full_page: bool,
    /// Only the first element that matches this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// As what.
    #[serde(default)]
    pub format: ImageFormat,
    /// How good, from 0 to 100; not for PNG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u8>,
    /// How wide the window is (1,280 pixels unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// How high it is (720 pixels unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// When the page is ready.
    #[serde(default)]
    pub wait: Wait,
    /// How many milliseconds it may take (30,000 unless set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// How a picture is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// Without loss.
    #[default]
    Png,
    /// Small, for photographs.
    Jpeg,
    /// Smaller still.
    Webp,
}

impl Screenshot {
    /// Takes a picture of the page at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    fn check(&self) -> Result<Visit, Failure> {
        let mut visit = Visit::new(&self.url, &self.wait, self.timeout)?;
        visit.window = (self.width.unwrap_or(visit.window.0), self.height.unwrap_or(visit.window.1));
        let sides = [visit.window.0, visit.window.1];
        if !sides.iter().all(|side| (1..=LARGEST).contains(side)) {
            return Err(Failure::Invalid(format!("width and height: must be from 1 to {LARGEST}")));
        }
        if sides.iter().map(|side| f64::from(*side)).product::<f64>() > MOST_PIXELS {
            return Err(Failure::Invalid(format!("width times height: must be at most {MOST_PIXELS}")));
        }
        if self.quality.is_some_and(|quality| quality > 100 || self.format == ImageFormat::Png) {
            return Err(Failure::Invalid("quality: must be from 0 to 100, and is not for png".into()));
        }
        if self.full_page && self.selector.is_some() {
            return Err(Failure::Invalid(
                "a picture is of the full page or of what matches a selector, not both".into(),
            ));
        }
        self.selector.as_deref().map_or(Ok(()), |selector| present("selector", selector))?;
        Ok(visit)
    }
}

/// What [`Screenshot`] comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Where the visit ended.
    pub url: String,
    /// What the server answered.
    pub status: u16,
    /// As what it is written.
    pub format: ImageFormat,
    /// The picture, in base64.
    pub base64: String,
    /// What the page wanted to reach and must not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for Screenshot {
    const KIND: &'static str = "screenshot";
    type Output = Picture;
}

pub(super) async fn screenshot(job: Screenshot, lender: Lender) -> Result<Picture, Fail> {
    let work = async |tab: &mut Tab<'_>, arrival: &Arrival| picture(tab, arrival, &job).await;
    at_page(&lender, job.check(), work).await
}

async fn picture(tab: &mut Tab<'_>, arrival: &Arrival, job: &Screenshot) -> Result<Picture, Failure> {
    let clip = clip(tab, job).await?;
    let format = match job.format {
        ImageFormat::Png => CaptureScreenshotFormat::Png,
        ImageFormat::Jpeg => CaptureScreenshotFormat::Jpeg,
        ImageFormat::Webp => CaptureScreenshotFormat::Webp,
    };
    let mut capture =
        CaptureScreenshotParams::builder().format(format).capture_beyond_viewport(clip.is_some());
    if let Some(quality) = job.quality {
        capture = capture.quality(quality);
    }
    if let Some(clip) = clip {
        capture = capture.clip(clip);
    }
    let base64 = String::from(tab.page.execute(capture.build()).await?.result.data);
    tab.fits(base64.len())?;
    let (url, status) = (tab.url(arrival).await?, arrival.status);
    Ok(Picture { url, status, format: job.format, base64, refused: tab.refused() })
}

/// Which part of the page, if not what the window shows.
async fn clip(tab: &Tab<'_>, job: &Screenshot) -> Result<Option<Viewport>, Failure> {
    let (x, y, width, height): (f64, f64, f64, f64) = match &job.selector {
        Some(selector) => {
            appears(&tab.page, selector).await?;
            tab.call(BOX, selector).await?
        }
        None if job.full_page => tab.call(WHOLE, "").await?,
        None => return Ok(None),
    };
    if width < 1.0 || height < 1.0 {
        return Err(Failure::Invalid("there is nothing to see of what matches the selector".into()));
    }
    let (width, height) = bounded(width, height);
    Ok(Some(Viewport { x, y, width, height, scale: 1.0 }))
}

/// As much of a part of the page as one picture can have; what lies below is cut off.
fn bounded(width: f64, height: f64) -> (f64, f64) {
    let width = width.min(LONGEST);
    (width, height.min(LONGEST).min((MOST_PIXELS / width).floor()))
}

const BOX: &str = "s => { const b = document.querySelector(s).getBoundingClientRect(); \
    return [b.x + scrollX, b.y + scrollY, b.width, b.height]; }";

const WHOLE: &str = "_ => { const e = document.documentElement, b = document.body ?? e; \
    return [0, 0, Math.max(e.scrollWidth, b.scrollWidth, innerWidth), Math.max(e.scrollHeight, b.scrollHeight, innerHeight)]; }";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_bounded_number_of_pixels() {
        assert_eq!(bounded(1280.0, 720.0), (1280.0, 720.0));
        assert_eq!(bounded(1920.0, 1e9), (1920.0, LONGEST));
        assert_eq!(bounded(1e9, 1e9), (LONGEST, 2048.0));
        let window =
            |side| Screenshot { width: Some(side), height: Some(side), ..Screenshot::new("http://a") };
        assert!(window(LARGEST).check().is_err() && window(4096).check().is_ok());
    }
}
