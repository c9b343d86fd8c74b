//! A page visited by a built-in job: navigation, readiness and script calls.

use std::time::Duration;

use chromiumoxide::Page;
use chromiumoxide::cdp::browser_protocol::emulation::SetDeviceMetricsOverrideParams;
use chromiumoxide::cdp::browser_protocol::network::{EventLoadingFailed, EventRequestWillBeSent, LoaderId};
use chromiumoxide::cdp::browser_protocol::page::{
    EventJavascriptDialogOpening, HandleJavaScriptDialogParams, NavigateParams, NavigateReturns,
};
use chromiumoxide::cdp::js_protocol::runtime::EvaluateParams;
use chromiumoxide::error::CdpError;
use chromiumoxide::listeners::EventStream;
use futures_util::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::PageError;
use super::leased_browser::Browser;
use super::navigation::NavigationWatcher;
use super::page_events::PageEvents;
pub(super) use super::page_events::PageResponse;
use super::page_request::{PageRequest, WaitUntil};

/// How often a page is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A page that a job visits.
pub(super) struct VisitedPage<'a> {
    browser: &'a Browser,
    request: &'a PageRequest,
    pub(super) cdp: Page,
}

/// Events that tell that there will be no page.
struct AbortEvents {
    requests: EventStream<EventRequestWillBeSent>,
    failures: EventStream<EventLoadingFailed>,
}

/// Visits a page and runs `work` on it, within the request's timeout.
pub(super) async fn visit_page<T>(
    browser: &Browser,
    request: &PageRequest,
    work: impl AsyncFnOnce(&mut VisitedPage<'_>, &PageResponse) -> Result<T, PageError>,
) -> Result<T, PageError> {
    let visit = async {
        let (mut visited, events, abort_events) = VisitedPage::open(browser, request).await?;
        let dialogs = visited.cdp.event_listener::<EventJavascriptDialogOpening>().await?;
        let (page, navigations) = (visited.cdp.clone(), NavigationWatcher::new(&visited.cdp).await?);
        tokio::select! {
            // A result that is ready at the same moment wins over a later navigation.
            biased;
            done = async {
                let response = visited.navigate(events, abort_events).await?;
                work(&mut visited, &response).await
            } => done,
            forbidden = navigations.wait_for_forbidden(browser) => Err(forbidden),
            never = dismiss_dialogs(page, dialogs) => match never {},
        }
    };
    match timeout(request.timeout, visit).await {
        Ok(done) => done,
        Err(_) if browser.is_lost() => Err(PageError::Failed("the browser was taken away".into())),
        Err(_) => {
            Err(PageError::Timeout(format!("{} was not done within {:?}", request.url, request.timeout)))
        }
    }
}

/// Dismisses dialogs: nobody is there to answer, and a page with an open dialog stands still.
async fn dismiss_dialogs(
    page: Page,
    mut dialogs: EventStream<EventJavascriptDialogOpening>,
) -> std::convert::Infallible {
    while dialogs.next().await.is_some() {
        let _ = page.execute(HandleJavaScriptDialogParams::new(false)).await;
    }
    std::future::pending().await
}

impl<'a> VisitedPage<'a> {
    async fn open(
        browser: &'a Browser,
        request: &'a PageRequest,
    ) -> Result<(Self, PageEvents, AbortEvents), PageError> {
        let page = browser.blank().await?;
        let (width, height) = request.window;
        page.execute(SetDeviceMetricsOverrideParams::new(width, height, 1.0, false)).await?;
        let (events, requests) = (PageEvents::open(&page).await?, page.event_listener().await?);
        let abort_events = AbortEvents { requests, failures: page.event_listener().await? };
        Ok((Self { browser, request, cdp: page }, events, abort_events))
    }

    /// Navigates and waits until the page is ready.
    async fn navigate(
        &self,
        mut events: PageEvents,
        abort_events: AbortEvents,
    ) -> Result<PageResponse, PageError> {
        let page = self.cdp.clone();
        let navigate = async {
            Ok::<_, CdpError>(page.execute(NavigateParams::new(self.request.url.as_str())).await?.result)
        };
        let mut navigate = std::pin::pin!(navigate);
        let wait = self.request.wait.clone();
        let selector = if let WaitUntil::Selector(selector) = &wait { Some(selector.as_str()) } else { None };
        let navigated = tokio::select! {
            navigated = &mut navigate => Some(navigated?),
            // A page that never finishes loading may already match.
            matched = wait_for_selector(&page, selector.unwrap_or_default()), if selector.is_some() => { matched?; None }
            () = wait_for_abort(&page, abort_events) => {
                return Err(PageError::NotAPage(self.request.url.to_string()));
            }
            never = events.process_all() => match never {},
        };
        if let Some(navigated) = &navigated {
            self.check_navigation(navigated)?;
        }
        let response = self.wait_for_response(&mut events).await?;
        // Drops the listeners as soon as possible: events are queued while a listener exists.
        let events = (wait == WaitUntil::NetworkIdle).then_some(events);
        self.wait_until_ready(&wait, navigated.and_then(|navigated| navigated.loader_id), events).await?;
        Ok(response)
    }

    async fn wait_until_ready(
        &self,
        wait: &WaitUntil,
        loader: Option<LoaderId>,
        mut events: Option<PageEvents>,
    ) -> Result<(), PageError> {
        match wait {
            WaitUntil::Load => Ok(()),
            WaitUntil::Millis(millis) => {
                tokio::time::sleep(Duration::from_millis(*millis)).await;
                Ok(())
            }
            WaitUntil::Selector(selector) => wait_for_selector(&self.cdp, selector).await,
            WaitUntil::NetworkIdle => {
                if let Some(events) = &mut events
                    && events.wait_for_network_idle(loader.as_ref()).await
                {
                    return Ok(());
                }
                Err(PageError::Failed("the browser was taken away".into()))
            }
        }
    }

    /// Checks whether there is a page at all.
    fn check_navigation(&self, navigated: &NavigateReturns) -> Result<(), PageError> {
        let Some(error) = &navigated.error_text else { return Ok(()) };
        let url = self.request.url.to_string();
        // Only the page itself has been requested so far.
        if let Some(refused) = self.browser.refused().pop() {
            return Err(PageError::Forbidden(refused));
        }
        match error.as_str() {
            "net::ERR_UNSAFE_REDIRECT" | "net::ERR_DISALLOWED_URL_SCHEME" | "net::ERR_UNKNOWN_URL_SCHEME" => {
                Err(PageError::Forbidden(format!("{url} leads to something that is neither http nor https")))
            }
            "net::ERR_UNSAFE_PORT" | "net::ERR_INVALID_URL" => {
                Err(PageError::Invalid(format!("url {url:?}: {error}")))
            }
            _ => Err(PageError::Failed(self.with_cause(format!("{url}: {error}")))),
        }
    }

    /// Adds the proxy's reason to the browser's error.
    fn with_cause(&self, mut error: String) -> String {
        if let Some(cause) = self.browser.unreachable().first() {
            error.push_str(&format!(" ({cause})"));
        }
        error
    }

    /// The response to the main document.
    async fn wait_for_response(&self, events: &mut PageEvents) -> Result<PageResponse, PageError> {
        let no_response = || PageError::Failed(self.with_cause(format!("{} said nothing", self.request.url)));
        self.check_response(events.response().await.ok_or_else(no_response)?)
    }

    fn check_response(&self, response: PageResponse) -> Result<PageResponse, PageError> {
        let (url, status) = (response.url.clone(), response.status);
        // Any server can send this header; only the job's own proxy log is trusted.
        let refused = if response.has_refused_header { self.browser.find_refused(&url) } else { None };
        match (refused, status) {
            (Some(refused), _) => Err(PageError::Forbidden(refused)),
            (None, 408 | 425 | 429 | 500..) => {
                Err(PageError::Unavailable { url: self.with_cause(url), status })
            }
            (None, 400..) if !self.request.accept_client_errors => Err(PageError::Status { url, status }),
            _ => Ok(response),
        }
    }

    /// The page's current URL, which its scripts may have changed.
    pub(super) async fn current_url(&self, response: &PageResponse) -> Result<String, PageError> {
        Ok(self.cdp.url().await?.unwrap_or_else(|| response.url.clone()))
    }

    /// Calls a function in the page with a text and the size an output may have, in characters. A
    /// larger result must return `{ too_large: … }` instead, so that it never leaves the browser.
    pub(super) async fn call_function<T: DeserializeOwned>(
        &self,
        function: &str,
        argument: &str,
    ) -> Result<T, PageError> {
        let max_output = self.browser.max_output_bytes();
        match call_in_page(&self.cdp, function, argument, max_output).await? {
            ScriptResult::TooLarge { too_large } => Err(PageError::TooLarge(too_large, max_output)),
            ScriptResult::Fits(value) => Ok(value),
        }
    }

    /// Checks the size of an output.
    pub(super) fn check_output_size(&self, bytes: usize) -> Result<(), PageError> {
        let max_output = self.browser.max_output_bytes();
        if bytes > max_output { Err(PageError::TooLarge(bytes, max_output)) } else { Ok(()) }
    }

    /// Addresses that the policy refused to the page.
    pub(super) fn refused(&self) -> Vec<String> {
        self.browser.refused()
    }
}

/// The result of a function in the page.
#[derive(Deserialize)]
#[serde(untagged)]
enum ScriptResult<T> {
    TooLarge { too_large: usize },
    Fits(T),
}

/// Completes when the navigation was aborted without a page: a download, or a response without
/// content. No load event follows then.
async fn wait_for_abort(page: &Page, abort_events: AbortEvents) {
    let AbortEvents { mut requests, mut failures } = abort_events;
    // The first request is for the page itself.
    let page_request_id = requests.next().await.map(|requests| requests.request_id.clone());
    drop(requests);
    while let Some(error) = failures.next().await {
        let is_page =
            Some(&error.request_id) == page_request_id.as_ref() && error.error_text == "net::ERR_ABORTED";
        let is_blank = async { page.url().await.is_ok_and(|url| url.is_none_or(|url| url == "about:blank")) };
        if is_page && is_blank.await {
            return;
        }
    }
    std::future::pending().await
}

/// Completes when an element matches.
pub(super) async fn wait_for_selector(page: &Page, selector: &str) -> Result<(), PageError> {
    // The initial empty page has a body too.
    let function = "s => { const found = document.querySelector(s); return location.href !== 'about:blank' && !!found; }";
    while !call_in_page::<bool>(page, function, selector, 0).await? {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Calls a function in an isolated world of the page, where the page's scripts cannot change
/// built-ins. A syntax error means an invalid selector. While the page is being replaced, there is
/// no context, and the call is repeated.
async fn call_in_page<T: DeserializeOwned>(
    page: &Page,
    function: &str,
    argument: &str,
    max_output: usize,
) -> Result<T, PageError> {
    let argument = serde_json::Value::from(argument);
    loop {
        let Some(context_id) = page.secondary_execution_context().await? else {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        };
        let mut evaluate = EvaluateParams::new(format!("({function})({argument}, {max_output})"));
        evaluate.context_id = Some(context_id);
        (evaluate.return_by_value, evaluate.await_promise) = (Some(true), Some(true));
        match page.evaluate_expression(evaluate).await {
            Ok(result) => {
                let broken = |error: serde_json::Error| PageError::Failed(format!("the page: {error}"));
                return result.into_value().map_err(broken);
            }
            Err(CdpError::JavascriptException(exception)) => {
                let text =
                    exception.exception.and_then(|exception| exception.description).unwrap_or(exception.text);
                let line = text.lines().next().unwrap_or_default().to_owned();
                return Err(match line.contains("is not a valid selector") {
                    true => PageError::Invalid(format!("selector: {line}")),
                    false => PageError::Failed(format!("the page: {line}")),
                });
            }
            Err(CdpError::Chrome(error)) if is_replacing_page(&error.message) => {
                tokio::time::sleep(POLL_INTERVAL).await
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the call failed because the page was being replaced.
fn is_replacing_page(message: &str) -> bool {
    message.contains("context") || message.contains("Inspected target navigated")
}
