//! A page of a browser.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

pub(crate) use super::command::Navigated;
use super::command::{
    AddScriptToEvaluateOnNewDocument, AttachToTarget, CaptureScreenshot, CdpCommand, CloseTarget,
    CreateIsolatedWorld, CreateTarget, Evaluate, Evaluated, GetFrameTree, Navigate, NetworkEnable,
    PageEnable, PrintToPdf, RuntimeEnable, SetLifecycleEventsEnabled,
};
use super::connection::{COMMAND_TIMEOUT, CdpConnection, EventSink};
use super::error::BrowserError;
use super::page_state::{ISOLATED_WORLD, PageTracker};
use super::receiver::EventReceiver;

/// How long [`BrowserPage::goto`] waits for a page to load.
const NAVIGATION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the event of a navigation within the document may come after its answer.
const MOVE_EVENT_TIMEOUT: Duration = Duration::from_secs(2);

/// The document as text, with its doctype.
const CONTENT: &str = "(() => { const doctype = document.doctype, root = document.documentElement; \
    return (doctype ? new XMLSerializer().serializeToString(doctype) : '') + (root ? root.outerHTML : ''); })()";

/// A page of a leased browser, see [`Browser::page`](crate::browser::Browser::page).
///
/// It has methods for what handlers do most; [`call`](Self::call) and [`events`](Self::events) reach
/// everything else in the [Chrome DevTools Protocol](https://chromedevtools.github.io/devtools-protocol/).
/// The domains `Page`, `Runtime` and `Network` are enabled. Dialogs are dismissed, unless the
/// handler receives `Page.javascriptDialogOpening` and answers them itself; those of `beforeunload` are
/// accepted.
///
/// Clones are handles to the same page. The page stays open until it is closed or the job ends.
#[derive(Clone)]
pub struct BrowserPage {
    inner: Arc<PageInner>,
}

struct PageInner {
    connection: CdpConnection,
    target: String,
    session: Arc<str>,
    tracker: Arc<PageTracker>,
}

impl BrowserPage {
    /// Opens an empty page in a browser context.
    pub(crate) async fn open(connection: &CdpConnection, context: &str) -> Result<Self, BrowserError> {
        let create = CreateTarget { url: "about:blank", browser_context_id: Some(context) };
        let target = connection.call(None, &create, COMMAND_TIMEOUT).await?.target_id;
        let attach = AttachToTarget { target_id: &target, flatten: true };
        let session = connection.call(None, &attach, COMMAND_TIMEOUT).await?.session_id.into();
        let tracker = Arc::new(PageTracker::new(&target));
        // Before the first event: none is sent until a domain is enabled.
        connection.add_sink(&session, &tracker);
        let page =
            Self { inner: Arc::new(PageInner { connection: connection.clone(), target, session, tracker }) };
        page.initialize().await?;
        Ok(page)
    }

    async fn initialize(&self) -> Result<(), BrowserError> {
        let source = "//# sourceURL=tidemill";
        let add_world = AddScriptToEvaluateOnNewDocument { source, world_name: Some(ISOLATED_WORLD) };
        // Sent in this order, without waiting for each answer.
        let (_, frames, ..) = tokio::try_join!(
            biased;
            self.execute(&PageEnable {}),
            self.execute(&GetFrameTree {}),
            self.execute(&SetLifecycleEventsEnabled { enabled: true }),
            self.execute(&RuntimeEnable {}),
            self.execute(&NetworkEnable {}),
            self.execute(&add_world),
        )?;
        let frame = frames.frame_tree.frame;
        let create_world = CreateIsolatedWorld {
            frame_id: &frame.id.clone(),
            world_name: Some(ISOLATED_WORLD),
            grant_univeral_access: true,
        };
        self.inner.tracker.set_frame(frame);
        self.execute(&create_world).await.map(drop)
    }

    /// Navigates and waits at most 30 seconds until the page has loaded: until the `load` event of its
    /// main frame, which comes after those of the frames in its HTML.
    ///
    /// # Errors
    ///
    /// [`BrowserError::Navigation`] if there is no page, such as at a download, and
    /// [`BrowserError::Timeout`] if it has not loaded in time.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the browser goes on with the navigation.
    pub async fn goto(&self, url: &str) -> Result<(), BrowserError> {
        match self.navigate(url, NAVIGATION_TIMEOUT).await?.error_text {
            Some(error) => Err(BrowserError::Navigation { url: url.to_owned(), error }),
            None => Ok(()),
        }
    }

    /// Navigates and waits until the page has loaded, or cannot be loaded.
    pub(crate) async fn navigate(&self, url: &str, limit: Duration) -> Result<Navigated, BrowserError> {
        let load = async {
            let tracker = &self.inner.tracker;
            let (frame, moves) = tracker.read(|state| (state.main_frame.clone(), state.moves));
            let navigated = self.execute(&Navigate { url, frame_id: Some(&frame) }).await?;
            match (&navigated.loader_id, &navigated.error_text) {
                (Some(loader), None) => tracker.wait_for_load(loader).await?,
                // Only the fragment of the URL changes, so nothing is loaded.
                (None, None) => {
                    let moved = timeout(MOVE_EVENT_TIMEOUT, tracker.wait_for_move(moves));
                    moved.await.unwrap_or(Ok(()))?;
                }
                (_, Some(_)) => {}
            }
            Ok(navigated)
        };
        let timed_out = |_| BrowserError::Timeout { method: Navigate::METHOD.into(), after: limit };
        timeout(limit, load).await.map_err(timed_out)?
    }

    /// Waits until the network of a document, or of any, is idle.
    pub(crate) async fn wait_for_network_idle(&self, loader: Option<&str>) -> Result<(), BrowserError> {
        self.inner.tracker.wait_for_network_idle(loader).await
    }

    /// The present URL, which the page's scripts may have changed.
    pub fn url(&self) -> String {
        self.inner.tracker.read(|state| state.url.clone())
    }

    /// The id of the main frame.
    pub(crate) fn main_frame(&self) -> String {
        self.inner.tracker.read(|state| state.main_frame.clone())
    }

    /// The page's title; empty if it has none.
    ///
    /// # Errors
    ///
    /// As [`evaluate`](Self::evaluate).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn title(&self) -> Result<String, BrowserError> {
        self.evaluate("document.title").await
    }

    /// The HTML of the document as it is now.
    ///
    /// # Errors
    ///
    /// As [`evaluate`](Self::evaluate).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn content(&self) -> Result<String, BrowserError> {
        self.evaluate(CONTENT).await
    }

    /// Evaluates a JavaScript expression in the page, awaits it if it is a promise, and returns its
    /// value. What has no value in JSON, such as `undefined`, is `null`.
    ///
    /// ```no_run
    /// # use tidemill_fleet::browser::{BrowserError, BrowserPage};
    /// # async fn example(page: BrowserPage) -> Result<(), BrowserError> {
    /// let links: Vec<String> = page.evaluate("Array.from(document.links, link => link.href)").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`BrowserError::Script`] if it throws, [`BrowserError::Json`] if the value is not a `T`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the script runs on.
    pub async fn evaluate<T: DeserializeOwned>(&self, expression: &str) -> Result<T, BrowserError> {
        self.evaluate_in(None, expression).await
    }

    /// Evaluates an expression in the isolated world, where the page's scripts cannot change
    /// built-ins; `None` while the page is being replaced.
    pub(crate) async fn evaluate_isolated<T: DeserializeOwned>(
        &self,
        expression: &str,
    ) -> Result<Option<T>, BrowserError> {
        let Some(world) = self.inner.tracker.read(|state| state.isolated_world.clone()) else {
            return Ok(None);
        };
        match self.evaluate_in(Some(&world), expression).await {
            Ok(value) => Ok(Some(value)),
            Err(BrowserError::Command { message, .. }) if is_replacing_page(&message) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn evaluate_in<T: DeserializeOwned>(
        &self,
        world: Option<&str>,
        expression: &str,
    ) -> Result<T, BrowserError> {
        let params =
            Evaluate { expression, unique_context_id: world, return_by_value: true, await_promise: true };
        let inner = &self.inner;
        let call =
            inner.connection.call_method(Some(&inner.session), Evaluate::METHOD, &params, COMMAND_TIMEOUT);
        let evaluated: Evaluated<T> = call.await?;
        match (evaluated.exception_details, evaluated.result.value) {
            (Some(exception), _) => Err(BrowserError::Script(exception.into_message())),
            (None, Some(value)) => Ok(value),
            (None, None) => serde_json::from_str("null").map_err(BrowserError::json(Evaluate::METHOD)),
        }
    }

    /// Takes a picture of what the window shows, as PNG. For other formats and parts of the page,
    /// call `Page.captureScreenshot`.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn screenshot(&self) -> Result<Vec<u8>, BrowserError> {
        Ok(STANDARD.decode(self.execute(&CaptureScreenshot::default()).await?.data)?)
    }

    /// Prints the page as PDF. For other paper, call `Page.printToPDF`.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn pdf(&self) -> Result<Vec<u8>, BrowserError> {
        Ok(STANDARD.decode(self.execute(&PrintToPdf::default()).await?.data)?)
    }

    /// Calls any command of the protocol and returns its result.
    ///
    /// ```no_run
    /// # use serde_json::json;
    /// # use tidemill_fleet::browser::{BrowserError, BrowserPage};
    /// # async fn example(page: BrowserPage) -> Result<(), BrowserError> {
    /// page.call("Emulation.setTimezoneOverride", json!({ "timezoneId": "Europe/Oslo" })).await?;
    /// let cookies = page.call("Network.getCookies", json!({})).await?["cookies"].take();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`BrowserError::Command`] if the browser refuses, [`BrowserError::Timeout`] if it does not
    /// answer within ten minutes, [`BrowserError::Closed`] if the page is closed or the browser lost.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the browser may execute the command all the same.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, BrowserError> {
        let inner = &self.inner;
        inner.connection.call_method(Some(&inner.session), method, &params, COMMAND_TIMEOUT).await
    }

    /// Calls a command of this page.
    pub(crate) async fn execute<C: CdpCommand>(&self, command: &C) -> Result<C::Output, BrowserError> {
        let inner = &self.inner;
        inner.connection.call(Some(&inner.session), command, COMMAND_TIMEOUT).await
    }

    /// Receives the events of this page with a method, such as `Runtime.consoleAPICalled`, from now
    /// on. Their domain must be enabled, see [`call`](Self::call).
    ///
    /// ```no_run
    /// # use serde_json::Value;
    /// # use tidemill_fleet::browser::{BrowserError, BrowserPage};
    /// # async fn example(page: BrowserPage) -> Result<(), BrowserError> {
    /// let mut lines = page.events::<Value>("Runtime.consoleAPICalled");
    /// page.goto("https://example.com").await?;
    /// while let Some(line) = lines.recv().await {
    ///     println!("{}", line?["args"]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn events<T: DeserializeOwned>(&self, method: &str) -> EventReceiver<T> {
        let (receiver, queue) = EventReceiver::new(method);
        self.add_sink(&queue);
        receiver
    }

    /// Passes the page's events to a sink until the sink is dropped.
    pub(crate) fn add_sink(&self, sink: &Arc<impl EventSink + 'static>) {
        self.inner.connection.add_sink(&self.inner.session, sink);
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &CdpConnection {
        &self.inner.connection
    }

    /// The id of the page in the browser.
    pub fn target_id(&self) -> &str {
        &self.inner.target
    }

    /// Closes the page. All its handles fail from then on.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the page may be closed all the same.
    pub async fn close(self) -> Result<(), BrowserError> {
        let close = CloseTarget { target_id: &self.inner.target };
        self.inner.connection.call(None, &close, COMMAND_TIMEOUT).await.map(drop)
    }
}

impl fmt::Debug for BrowserPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrowserPage({})", self.inner.target)
    }
}

/// Whether a script could not run because the page was being replaced.
fn is_replacing_page(message: &str) -> bool {
    message.to_ascii_lowercase().contains("context") || message.contains("Inspected target navigated")
}
