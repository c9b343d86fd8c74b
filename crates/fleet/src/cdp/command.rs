//! The commands that browser jobs use: parameters as a struct, with the type of the result.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

/// A command with its parameters.
pub(crate) trait CdpCommand: Serialize {
    const METHOD: &'static str;
    type Output: DeserializeOwned;
}

/// Declares commands: `Name<'a> "Domain.method" -> Output { parameters }`.
macro_rules! commands {
    ($($(#[$meta:meta])* $name:ident $(<$life:lifetime>)? $method:literal -> $output:ty { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct $name $(<$life>)? {
            $(#[serde(skip_serializing_if = "Unset::is_unset")] pub(crate) $field: $type,)*
        }

        impl $(<$life>)? CdpCommand for $name $(<$life>)? {
            const METHOD: &'static str = $method;
            type Output = $output;
        }
    )*};
}

/// Optional parameters are left out of the message: a browser takes `null` for a wrong type.
trait Unset {
    fn is_unset(&self) -> bool {
        false
    }
}

impl<T> Unset for Option<T> {
    fn is_unset(&self) -> bool {
        self.is_none()
    }
}

impl Unset for bool {}
impl Unset for u32 {}
impl Unset for i64 {}
impl Unset for f64 {}
impl Unset for str {}
impl<T: Unset + ?Sized> Unset for &T {}

commands! {
    /// Creates a browser context, which shares nothing with others.
    CreateBrowserContext<'a> "Target.createBrowserContext" -> BrowserContextCreated {
        dispose_on_detach: bool,
        proxy_server: Option<&'a str>,
        proxy_bypass_list: Option<&'a str>,
    }

    /// Allows or denies downloads in a context.
    SetDownloadBehavior<'a> "Browser.setDownloadBehavior" -> IgnoredAny {
        behavior: &'a str,
        browser_context_id: Option<&'a str>,
    }

    /// Opens a page.
    CreateTarget<'a> "Target.createTarget" -> TargetCreated {
        url: &'a str,
        browser_context_id: Option<&'a str>,
    }

    /// Starts a session with a page.
    AttachToTarget<'a> "Target.attachToTarget" -> AttachedToTarget { target_id: &'a str, flatten: bool }

    /// Closes a page.
    CloseTarget<'a> "Target.closeTarget" -> IgnoredAny { target_id: &'a str }

    /// Enables the events of `Page`.
    PageEnable "Page.enable" -> IgnoredAny {}

    /// Enables the events of `Runtime`.
    RuntimeEnable "Runtime.enable" -> IgnoredAny {}

    /// Enables the events of `Network`.
    NetworkEnable "Network.enable" -> IgnoredAny {}

    /// Enables `Page.lifecycleEvent`.
    SetLifecycleEventsEnabled "Page.setLifecycleEventsEnabled" -> IgnoredAny { enabled: bool }

    /// Reads the frames of a page.
    GetFrameTree "Page.getFrameTree" -> FrameTreeRead {}

    /// Runs a script in every new document, here to create an isolated world in each.
    AddScriptToEvaluateOnNewDocument<'a> "Page.addScriptToEvaluateOnNewDocument" -> IgnoredAny {
        source: &'a str,
        world_name: Option<&'a str>,
    }

    /// Creates an isolated world in the present document of a frame. The misspelling is the protocol's.
    CreateIsolatedWorld<'a> "Page.createIsolatedWorld" -> IgnoredAny {
        frame_id: &'a str,
        world_name: Option<&'a str>,
        grant_univeral_access: bool,
    }

    /// Navigates a page. The browser answers when the new document is there or cannot be had.
    Navigate<'a> "Page.navigate" -> Navigated { url: &'a str, frame_id: Option<&'a str> }

    /// Closes a dialog of a page.
    HandleJavaScriptDialog "Page.handleJavaScriptDialog" -> IgnoredAny { accept: bool }

    /// Sets the size of the window.
    SetDeviceMetricsOverride "Emulation.setDeviceMetricsOverride" -> IgnoredAny {
        width: u32,
        height: u32,
        device_scale_factor: f64,
        mobile: bool,
    }

    /// Takes a picture of a page.
    CaptureScreenshot<'a> "Page.captureScreenshot" -> ScreenshotCaptured {
        format: Option<&'a str>,
        quality: Option<u8>,
        clip: Option<Clip>,
        capture_beyond_viewport: bool,
    }

    /// Prints a page.
    PrintToPdf<'a> "Page.printToPDF" -> PdfPrinted {
        landscape: Option<bool>,
        print_background: Option<bool>,
        scale: Option<f64>,
        paper_width: Option<f64>,
        paper_height: Option<f64>,
        margin_top: Option<f64>,
        margin_bottom: Option<f64>,
        margin_left: Option<f64>,
        margin_right: Option<f64>,
        page_ranges: Option<&'a str>,
        transfer_mode: Option<&'a str>,
    }

    /// Reads a part of a stream.
    IoRead<'a> "IO.read" -> IoPart { handle: &'a str, size: i64 }
}

/// Part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Clip {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) scale: f64,
}

/// `Runtime.evaluate`: a script, in the main world or in the context with this id.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Evaluate<'a> {
    pub(super) expression: &'a str,
    /// Never given to another context, unlike `contextId`, which counts anew in each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unique_context_id: Option<&'a str>,
    pub(super) return_by_value: bool,
    pub(super) await_promise: bool,
}

impl Evaluate<'_> {
    pub(super) const METHOD: &'static str = "Runtime.evaluate";
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrowserContextCreated {
    pub(crate) browser_context_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetCreated {
    pub(crate) target_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttachedToTarget {
    pub(crate) session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameTreeRead {
    pub(crate) frame_tree: FrameTree,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FrameTree {
    pub(crate) frame: super::event::PageFrame,
}

/// The result of a navigation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Navigated {
    /// The new document; none if only the fragment of the URL changes.
    pub(crate) loader_id: Option<String>,
    /// Why there is none, such as `net::ERR_CONNECTION_REFUSED`.
    pub(crate) error_text: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ScreenshotCaptured {
    /// In base64.
    pub(crate) data: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PdfPrinted {
    /// In base64; empty if there is a stream.
    #[serde(default)]
    pub(crate) data: String,
    pub(crate) stream: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IoPart {
    #[serde(default)]
    pub(crate) base64_encoded: bool,
    pub(crate) data: String,
    pub(crate) eof: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Evaluated<T> {
    pub(super) result: RemoteValue<T>,
    pub(super) exception_details: Option<ExceptionDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RemoteValue<T> {
    pub(super) value: Option<T>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExceptionDetails {
    text: String,
    exception: Option<ExceptionValue>,
}

#[derive(Debug, Deserialize)]
struct ExceptionValue {
    description: Option<String>,
}

impl ExceptionDetails {
    /// The exception with its stack; only `Uncaught` if what was thrown is not an error.
    pub(super) fn into_message(self) -> String {
        self.exception.and_then(|exception| exception.description).unwrap_or(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_not_set_are_left_out() {
        let context = CreateBrowserContext { dispose_on_detach: true, ..Default::default() };
        assert_eq!(serde_json::to_string(&context).unwrap(), r#"{"disposeOnDetach":true}"#);
        let navigate = Navigate { url: "http://a/", frame_id: Some("F") };
        assert_eq!(serde_json::to_string(&navigate).unwrap(), r#"{"url":"http://a/","frameId":"F"}"#);
        assert_eq!(serde_json::to_string(&PageEnable {}).unwrap(), "{}");
    }

    #[test]
    fn an_exception_is_told_by_its_description() {
        let thrown = r#"{"result":{"type":"object"},"exceptionDetails":{"text":"Uncaught","exception":{"description":"Error: no\n at a"}}}"#;
        let evaluated: Evaluated<u32> = serde_json::from_str(thrown).unwrap();
        assert_eq!(evaluated.exception_details.unwrap().into_message(), "Error: no\n at a");
        assert_eq!(evaluated.result.value, None);
    }
}
