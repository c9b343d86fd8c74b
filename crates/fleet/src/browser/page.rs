//! A page visited by a built-in job: navigation, readiness and script calls.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::PageError;
use super::leased_browser::Browser;
use super::page_events::PageEvents;
pub(super) use super::page_events::PageResponse;
use super::page_request::{PageRequest, WaitUntil};
use crate::cdp::{BrowserError, BrowserPage, Navigated, SetDeviceMetricsOverride};

/// How often a page is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A page that a job visits.
pub(super) struct VisitedPage<'a> {
    browser: &'a Browser,
    request: &'a PageRequest,
    pub(super) cdp: BrowserPage,
    events: Arc<PageEvents>,
}

/// Visits a page and runs `work` on it, within the request's timeout.
pub(super) async fn visit_page<T>(
    browser: &Browser,
    request: &PageRequest,
    work: impl AsyncFnOnce(&mut VisitedPage<'_>, &PageResponse) -> Result<T, PageError>,
) -> Result<T, PageError> {
    let visit = async {
        let mut visited = VisitedPage::open(browser, request).await?;
        let events = visited.events.clone();
        tokio::select! {
            // A result that is ready at the same moment wins over a later navigation.
            biased;
            done = async {
                let response = visited.navigate().await?;
                work(&mut visited, &response).await
            } => done,
            forbidden = events.wait_for_forbidden() => Err(PageError::Forbidden(forbidden)),
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

impl<'a> VisitedPage<'a> {
    async fn open(browser: &'a Browser, request: &'a PageRequest) -> Result<Self, PageError> {
        let page = browser.blank().await?;
        let events = Arc::new(PageEvents::new(page.main_frame(), browser.blocked().clone()));
        page.add_sink(&events);
        let (width, height) = request.window;
        let window = SetDeviceMetricsOverride { width, height, device_scale_factor: 1.0, mobile: false };
        page.execute(&window).await?;
        Ok(Self { browser, request, cdp: page, events })
    }

    /// Navigates and waits until the page is ready.
    async fn navigate(&self) -> Result<PageResponse, PageError> {
        let navigate = self.cdp.navigate(self.request.url.as_str(), self.request.timeout);
        let navigated = match &self.request.wait {
            // A page that never finishes loading may already match.
            WaitUntil::Selector(selector) => tokio::select! {
                navigated = navigate => Some(navigated?),
                matched = wait_for_selector(&self.cdp, selector) => { matched?; None }
            },
            _ => Some(navigate.await?),
        };
        if let Some(navigated) = &navigated {
            self.check_navigation(navigated)?;
        }
        let response = self.wait_for_response().await?;
        let loader = navigated.and_then(|navigated| navigated.loader_id);
        self.wait_until_ready(loader.as_deref()).await?;
        Ok(response)
    }

    async fn wait_until_ready(&self, loader: Option<&str>) -> Result<(), PageError> {
        match &self.request.wait {
            WaitUntil::Load => Ok(()),
            WaitUntil::Millis(millis) => {
                tokio::time::sleep(Duration::from_millis(*millis)).await;
                Ok(())
            }
            WaitUntil::Selector(selector) => wait_for_selector(&self.cdp, selector).await,
            WaitUntil::NetworkIdle => {
                let lost = |_| PageError::Failed("the browser was taken away".into());
                self.cdp.wait_for_network_idle(loader).await.map_err(lost)
            }
        }
    }

    /// Checks whether there is a page at all.
    fn check_navigation(&self, navigated: &Navigated) -> Result<(), PageError> {
        let Some(error) = &navigated.error_text else { return Ok(()) };
        let url = self.request.url.to_string();
        // A download, or a response without content.
        if error == "net::ERR_ABORTED" {
            return Err(PageError::NotAPage(url));
        }
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
    async fn wait_for_response(&self) -> Result<PageResponse, PageError> {
        let no_response = || PageError::Failed(self.with_cause(format!("{} said nothing", self.request.url)));
        self.check_response(self.events.response().await.ok_or_else(no_response)?)
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

/// Completes when an element matches.
pub(super) async fn wait_for_selector(page: &BrowserPage, selector: &str) -> Result<(), PageError> {
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
    page: &BrowserPage,
    function: &str,
    argument: &str,
    max_output: usize,
) -> Result<T, PageError> {
    let argument = serde_json::Value::from(argument);
    let expression = format!("({function})({argument}, {max_output})");
    loop {
        match page.evaluate_isolated(&expression).await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => tokio::time::sleep(POLL_INTERVAL).await,
            Err(BrowserError::Script(text)) => {
                let line = text.lines().next().unwrap_or_default().to_owned();
                return Err(match line.contains("is not a valid selector") {
                    true => PageError::Invalid(format!("selector: {line}")),
                    false => PageError::Failed(format!("the page: {line}")),
                });
            }
            Err(BrowserError::Json { source, .. }) => {
                return Err(PageError::Failed(format!("the page: {source}")));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
