//! `screenshot`: an image of a page.

use serde::{Deserialize, Serialize};
use tidemill_core::Job;
use tidemill_worker::Fail;

use super::run_on_page;
use crate::browser::error::PageError;
use crate::browser::lazy_browser::LazyBrowser;
use crate::browser::page::{PageResponse, VisitedPage, wait_for_selector};
use crate::browser::page_request::{PageRequest, WaitUntil, require_non_empty};
use crate::cdp::{CaptureScreenshot, Clip};

/// The largest window side in pixels.
const MAX_WINDOW_SIDE_PX: u32 = 8192;

/// The largest image side in pixels: browsers draw no more. The rest is cut off.
const MAX_IMAGE_SIDE_PX: f64 = 16384.0;

/// The most pixels of an image: some pages compress badly in every format.
const MAX_IMAGE_PIXELS: f64 = 33_554_432.0;

/// Visits a page and takes a screenshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Screenshot {
    /// The page's URL.
    pub url: String,
    /// The whole page instead of the window.
    #[serde(default)]
    pub full_page: bool,
    /// Only the first element that matches this selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The image format.
    #[serde(default)]
    pub format: ImageFormat,
    /// Quality from 0 to 100; not for PNG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u8>,
    /// Window width in pixels. Default: 1,280.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Window height in pixels. Default: 720.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// When the page is ready.
    #[serde(default)]
    pub wait: WaitUntil,
    /// Timeout in milliseconds. Default: 30,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// An image format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// Lossless.
    #[default]
    Png,
    /// Lossy, for photographs.
    Jpeg,
    /// Lossy, smaller than JPEG.
    Webp,
}

impl Screenshot {
    /// Takes a screenshot of the page at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    fn check(&self) -> Result<PageRequest, PageError> {
        let mut visit = PageRequest::new(&self.url, &self.wait, self.timeout)?;
        visit.window = (self.width.unwrap_or(visit.window.0), self.height.unwrap_or(visit.window.1));
        let sides = [visit.window.0, visit.window.1];
        if !sides.iter().all(|side| (1..=MAX_WINDOW_SIDE_PX).contains(side)) {
            return Err(PageError::Invalid(format!(
                "width and height: must be from 1 to {MAX_WINDOW_SIDE_PX}"
            )));
        }
        if sides.iter().map(|side| f64::from(*side)).product::<f64>() > MAX_IMAGE_PIXELS {
            return Err(PageError::Invalid(format!(
                "width times height: must be at most {MAX_IMAGE_PIXELS}"
            )));
        }
        if self.quality.is_some_and(|quality| quality > 100 || self.format == ImageFormat::Png) {
            return Err(PageError::Invalid("quality: must be from 0 to 100, and is not for png".into()));
        }
        if self.full_page && self.selector.is_some() {
            return Err(PageError::Invalid(
                "a picture is of the full page or of what matches a selector, not both".into(),
            ));
        }
        self.selector.as_deref().map_or(Ok(()), |selector| require_non_empty("selector", selector))?;
        Ok(visit)
    }
}

/// The output of [`Screenshot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenshotOutput {
    /// The page's final URL.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The image format.
    pub format: ImageFormat,
    /// The image, in base64.
    pub base64: String,
    /// Addresses that the page tried to reach and the policy refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Job for Screenshot {
    const KIND: &'static str = "screenshot";
    type Output = ScreenshotOutput;
}

pub(super) async fn screenshot(job: Screenshot, lazy: LazyBrowser) -> Result<ScreenshotOutput, Fail> {
    let work =
        async |page: &mut VisitedPage<'_>, response: &PageResponse| capture(page, response, &job).await;
    run_on_page(&lazy, job.check(), work).await
}

async fn capture(
    page: &mut VisitedPage<'_>,
    response: &PageResponse,
    job: &Screenshot,
) -> Result<ScreenshotOutput, PageError> {
    let clip = clip(page, job).await?;
    let format = match job.format {
        ImageFormat::Png => "png",
        ImageFormat::Jpeg => "jpeg",
        ImageFormat::Webp => "webp",
    };
    let capture = CaptureScreenshot {
        format: Some(format),
        quality: job.quality,
        clip,
        capture_beyond_viewport: clip.is_some(),
    };
    let base64 = page.cdp.execute(&capture).await?.data;
    page.check_output_size(base64.len())?;
    let (url, status) = (page.cdp.url(), response.status);
    Ok(ScreenshotOutput { url, status, format: job.format, base64, refused: page.refused() })
}

/// The captured part of the page, if it is not the window.
async fn clip(page: &VisitedPage<'_>, job: &Screenshot) -> Result<Option<Clip>, PageError> {
    let (x, y, width, height): (f64, f64, f64, f64) = match &job.selector {
        Some(selector) => {
            wait_for_selector(&page.cdp, selector).await?;
            page.call_function(ELEMENT_BOX_JS, selector).await?
        }
        None if job.full_page => page.call_function(PAGE_BOX_JS, "").await?,
        None => return Ok(None),
    };
    if width < 1.0 || height < 1.0 {
        return Err(PageError::Invalid("there is nothing to see of what matches the selector".into()));
    }
    let (width, height) = limit_size(width, height);
    Ok(Some(Clip { x, y, width, height, scale: 1.0 }))
}

/// Limits a part of the page to the size of an image. What lies below is cut off.
fn limit_size(width: f64, height: f64) -> (f64, f64) {
    let width = width.min(MAX_IMAGE_SIDE_PX);
    (width, height.min(MAX_IMAGE_SIDE_PX).min((MAX_IMAGE_PIXELS / width).floor()))
}

const ELEMENT_BOX_JS: &str = "s => { const b = document.querySelector(s).getBoundingClientRect(); \
    return [b.x + scrollX, b.y + scrollY, b.width, b.height]; }";

const PAGE_BOX_JS: &str = "_ => { const e = document.documentElement, b = document.body ?? e; \
    return [0, 0, Math.max(e.scrollWidth, b.scrollWidth, innerWidth), Math.max(e.scrollHeight, b.scrollHeight, innerHeight)]; }";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_bounded_number_of_pixels() {
        assert_eq!(limit_size(1280.0, 720.0), (1280.0, 720.0));
        assert_eq!(limit_size(1920.0, 1e9), (1920.0, MAX_IMAGE_SIDE_PX));
        assert_eq!(limit_size(1e9, 1e9), (MAX_IMAGE_SIDE_PX, 2048.0));
        let window =
            |side| Screenshot { width: Some(side), height: Some(side), ..Screenshot::new("http://a") };
        assert!(window(MAX_WINDOW_SIDE_PX).check().is_err() && window(4096).check().is_ok());
    }
}
