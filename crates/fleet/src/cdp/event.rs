//! The events that browser jobs use.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// An event as it arrives. Only sinks that need its parameters parse them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CdpEvent<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: &'a RawValue,
}

impl<'a> CdpEvent<'a> {
    /// The parameters; none if the browser's version of the event lacks a field.
    pub(crate) fn parse<T: Deserialize<'a>>(&self) -> Option<T> {
        serde_json::from_str(self.params.get()).ok()
    }
}

/// A page has opened a dialog, and runs no scripts until it is closed.
#[derive(Debug, Deserialize)]
pub(super) struct DialogOpening {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    #[serde(rename = "type")]
    pub(super) kind: String,
}

impl DialogOpening {
    pub(super) const METHOD: &'static str = "Page.javascriptDialogOpening";
}

/// All script contexts of a page are gone.
pub(super) const CONTEXTS_CLEARED: &str = "Runtime.executionContextsCleared";

/// A document has reached a state, such as `load` or `networkIdle`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LifecycleEvent {
    pub(super) frame_id: String,
    pub(super) loader_id: String,
    pub(super) name: String,
}

impl LifecycleEvent {
    pub(super) const METHOD: &'static str = "Page.lifecycleEvent";
}

/// A frame shows another document.
#[derive(Debug, Deserialize)]
pub(crate) struct FrameNavigated {
    pub(crate) frame: PageFrame,
}

impl FrameNavigated {
    pub(crate) const METHOD: &'static str = "Page.frameNavigated";
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageFrame {
    pub(crate) id: String,
    /// None for the page itself.
    pub(crate) parent_id: Option<String>,
    pub(crate) loader_id: String,
    pub(crate) url: String,
    /// Not part of `url`; begins with `#`.
    pub(crate) url_fragment: Option<String>,
    /// The URL that could not be loaded, if this is an error page.
    pub(crate) unreachable_url: Option<String>,
}

/// The URL of a frame changed without another document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NavigatedWithinDocument {
    pub(super) frame_id: String,
    pub(super) url: String,
}

impl NavigatedWithinDocument {
    pub(super) const METHOD: &'static str = "Page.navigatedWithinDocument";
}

/// A page wants to navigate, whether it is allowed to or not.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameScheduledNavigation {
    pub(crate) frame_id: String,
    /// In seconds.
    pub(crate) delay: f64,
    pub(crate) url: String,
}

impl FrameScheduledNavigation {
    pub(crate) const METHOD: &'static str = "Page.frameScheduledNavigation";
}

/// The head of an HTTP response.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResponseReceived {
    /// `Document` for pages and frames.
    #[serde(rename = "type")]
    pub(crate) resource: String,
    pub(crate) frame_id: Option<String>,
    pub(crate) response: ResponseHead,
}

impl ResponseReceived {
    pub(crate) const METHOD: &'static str = "Network.responseReceived";
}

#[derive(Debug, Deserialize)]
pub(crate) struct ResponseHead {
    pub(crate) url: String,
    pub(crate) status: i64,
    pub(crate) headers: serde_json::Map<String, Value>,
}

/// A document, or an isolated world in it, can run scripts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionContextCreated<'a> {
    #[serde(borrow)]
    pub(super) context: ExecutionContext<'a>,
}

impl ExecutionContextCreated<'_> {
    pub(super) const METHOD: &'static str = "Runtime.executionContextCreated";
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionContext<'a> {
    pub(super) unique_id: String,
    /// Of the isolated world; of an extension, anything.
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    pub(super) aux_data: Option<ContextOwner>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContextOwner {
    pub(super) frame_id: Option<String>,
}

/// A context can run no more scripts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionContextDestroyed {
    pub(super) execution_context_unique_id: String,
}

impl ExecutionContextDestroyed {
    pub(super) const METHOD: &'static str = "Runtime.executionContextDestroyed";
}

/// A session has ended: its page was closed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DetachedFromTarget {
    pub(super) session_id: String,
}

impl DetachedFromTarget {
    pub(super) const METHOD: &'static str = "Target.detachedFromTarget";
}
