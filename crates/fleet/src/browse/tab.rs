//! A page that is visited by a built-in job: opened, waited for, asked.

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

use super::browser::Browser;
pub(super) use super::ears::Arrival;
use super::ears::Ears;
use super::failure::Failure;
use super::navigation::Navigations;
use super::visit::{Visit, Wait};

/// How often a page is asked whether something matches.
const LOOK: Duration = Duration::from_millis(50);

/// A page under way.
pub(super) struct Tab<'a> {
    browser: &'a Browser,
    visit: &'a Visit,
    pub(super) page: Page,
}

/// What tells that there will be no page.
struct Omens {
    asked: EventStream<EventRequestWillBeSent>,
    failed: EventStream<EventLoadingFailed>,
}

/// Visits a page and does `work` there, all within the visit's time.
pub(super) async fn visit<T>(
    browser: &Browser,
    visit: &Visit,
    work: impl AsyncFnOnce(&mut Tab<'_>, &Arrival) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let all = async {
        let (mut tab, ears, omens) = Tab::open(browser, visit).await?;
        let dialogs = tab.page.event_listener::<EventJavascriptDialogOpening>().await?;
        let (page, navigations) = (tab.page.clone(), Navigations::watch(&tab.page).await?);
        tokio::select! {
            // What is there in the same moment counts before where the page leads then.
            biased;
            done = async {
                let arrival = tab.go(ears, omens).await?;
                work(&mut tab, &arrival).await
            } => done,
            forbidden = navigations.forbidden(browser) => Err(forbidden),
            never = dismiss(page, dialogs) => match never {},
        }
    };
    match timeout(visit.timeout, all).await {
        Ok(done) => done,
        Err(_) if browser.is_lost() => Err(Failure::Broken("the browser was taken away".into())),
        Err(_) => Err(Failure::Timeout(format!("{} was not done within {:?}", visit.url, visit.timeout))),
    }
}

/// Says no to whatever a page asks the reader: nobody is there, and a page that asks stands still.
async fn dismiss(
    page: Page,
    mut dialogs: EventStream<EventJavascriptDialogOpening>,
) -> std::convert::Infallible {
    while dialogs.next().await.is_some() {
        let _ = page.execute(HandleJavaScriptDialogParams::new(false)).await;
    }
    std::future::pending().await
}

impl<'a> Tab<'a> {
    async fn open(browser: &'a Browser, visit: &'a Visit) -> Result<(Self, Ears, Omens), Failure> {
        let page = browser.blank().await?;
        let (width, height) = visit.window;
        page.execute(SetDeviceMetricsOverrideParams::new(width, height, 1.0, false)).await?;
        let (ears, asked) = (Ears::open(&page).await?, page.event_listener().await?);
        let omens = Omens { asked, failed: page.event_listener().await? };
        Ok((Self { browser, visit, page }, ears, omens))
    }

    /// Goes there and waits until the page is ready.
    async fn go(&self, mut ears: Ears, omens: Omens) -> Result<Arrival, Failure> {
        let page = self.page.clone();
        let navigate = async {
            Ok::<_, CdpError>(page.execute(NavigateParams::new(self.visit.url.as_str())).await?.result)
        };
        let mut navigate = std::pin::pin!(navigate);
        let wait = self.visit.wait.clone();
        let selector = if let Wait::Selector(selector) = &wait { Some(selector.as_str()) } else { None };
        let gone = tokio::select! {
            gone = &mut navigate => Some(gone?),
            // A page that never loads may have long shown what is waited for.
            shown = appears(&page, selector.unwrap_or_default()), if selector.is_some() => { shown?; None }
            () = aborted(&page, omens) => {
                return Err(Failure::NotAPage(self.visit.url.to_string()));
            }
            never = ears.hear() => match never {},
        };
        if let Some(gone) = &gone {
            self.check(gone)?;
        }
        let arrival = self.arrival(&mut ears).await?;
        // Nobody listens for longer than needed: what a listener does not hear any more is not kept for it.
        let ears = (wait == Wait::NetworkIdle).then_some(ears);
        self.ready(&wait, gone.and_then(|gone| gone.loader_id), ears).await?;
        Ok(arrival)
    }

    async fn ready(
        &self,
        wait: &Wait,
        loader: Option<LoaderId>,
        mut ears: Option<Ears>,
    ) -> Result<(), Failure> {
        match wait {
            Wait::Load => Ok(()),
            Wait::Millis(millis) => {
                tokio::time::sleep(Duration::from_millis(*millis)).await;
                Ok(())
            }
            Wait::Selector(selector) => appears(&self.page, selector).await,
            Wait::NetworkIdle => {
                if let Some(ears) = &mut ears
                    && ears.idle(loader.as_ref()).await
                {
                    return Ok(());
                }
                Err(Failure::Broken("the browser was taken away".into()))
            }
        }
    }

    /// Whether there is a page at all.
    fn check(&self, gone: &NavigateReturns) -> Result<(), Failure> {
        let Some(error) = &gone.error_text else { return Ok(()) };
        let url = self.visit.url.to_string();
        // Nothing of the page has been asked for yet but the page itself.
        if let Some(refused) = self.browser.refused().pop() {
            return Err(Failure::Forbidden(refused));
        }
        match error.as_str() {
            "net::ERR_UNSAFE_REDIRECT" | "net::ERR_DISALLOWED_URL_SCHEME" | "net::ERR_UNKNOWN_URL_SCHEME" => {
                Err(Failure::Forbidden(format!("{url} leads to something that is neither http nor https")))
            }
            "net::ERR_UNSAFE_PORT" | "net::ERR_INVALID_URL" => {
                Err(Failure::Invalid(format!("url {url:?}: {error}")))
            }
            _ => Err(Failure::Broken(self.because(format!("{url}: {error}")))),
        }
    }

    /// What went wrong as the browser says it, and as the proxy knows it.
    fn because(&self, mut error: String) -> String {
        if let Some(cause) = self.browser.unreachable().first() {
            error.push_str(&format!(" ({cause})"));
        }
        error
    }

    /// What the server said of the page itself.
    async fn arrival(&self, ears: &mut Ears) -> Result<Arrival, Failure> {
        let nothing = || Failure::Broken(self.because(format!("{} said nothing", self.visit.url)));
        self.judge(ears.arrival().await.ok_or_else(nothing)?)
    }

    fn judge(&self, arrival: Arrival) -> Result<Arrival, Failure> {
        let (url, status) = (arrival.url.clone(), arrival.status);
        // Any server can say so; only the proxy of this job knows.
        let refused = if arrival.says_refused { self.browser.refusal_of(&url) } else { None };
        match (refused, status) {
            (Some(refused), _) => Err(Failure::Forbidden(refused)),
            (None, 408 | 425 | 429 | 500..) => Err(Failure::Unavailable { url: self.because(url), status }),
            (None, 400..) if !self.visit.any_status => Err(Failure::Status { url, status }),
            _ => Ok(arrival),
        }
    }

    /// Where the page is now: its own code may have led elsewhere.
    pub(super) async fn url(&self, arrival: &Arrival) -> Result<String, Failure> {
        Ok(self.page.url().await?.unwrap_or_else(|| arrival.url.clone()))
    }

    /// The value of a function that is called in the page with a text and the size an output may have, in characters. One
    /// that would come to more says `{ too_large: … }` instead: what is too large must not get here.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        function: &str,
        argument: &str,
    ) -> Result<T, Failure> {
        let most = self.browser.largest_output();
        match call(&self.page, function, argument, most).await? {
            Said::TooLarge { too_large } => Err(Failure::TooLarge(too_large, most)),
            Said::Fits(value) => Ok(value),
        }
    }

    /// An output's size, if it may have it.
    pub(super) fn fits(&self, bytes: usize) -> Result<(), Failure> {
        let most = self.browser.largest_output();
        if bytes > most { Err(Failure::TooLarge(bytes, most)) } else { Ok(()) }
    }

    /// What the page's requests were refused.
    pub(super) fn refused(&self) -> Vec<String> {
        self.browser.refused()
    }
}

/// What a function in the page says.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said<T> {
    TooLarge { too_large: usize },
    Fits(T),
}

/// Completes when the page has been given up before there was anything to see: a download, or an answer without a
/// content. Nothing loads then, so nobody would ever say that it has.
async fn aborted(page: &Page, omens: Omens) {
    let Omens { mut asked, mut failed } = omens;
    // The first request is for the page itself.
    let first = asked.next().await.map(|asked| asked.request_id.clone());
    drop(asked);
    while let Some(failure) = failed.next().await {
        let is_page = Some(&failure.request_id) == first.as_ref() && failure.error_text == "net::ERR_ABORTED";
        let is_blank = async { page.url().await.is_ok_and(|url| url.is_none_or(|url| url == "about:blank")) };
        if is_page && is_blank.await {
            return;
        }
    }
    std::future::pending().await
}

/// Completes when something matches.
pub(super) async fn appears(page: &Page, selector: &str) -> Result<(), Failure> {
    // The empty page that was there before has a body, too.
    let function = "s => { const found = document.querySelector(s); return location.href !== 'about:blank' && !!found; }";
    while !call::<bool>(page, function, selector, 0).await? {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Calls a function in the page, but in a world of its own, where the page's code cannot have changed what anything means. One
/// that throws a syntax error was given a selector that is none; while the page is being
/// replaced by the next there is nobody to answer, and the call is repeated.
async fn call<T: DeserializeOwned>(
    page: &Page,
    function: &str,
    argument: &str,
    most: usize,
) -> Result<T, Failure> {
    let argument = serde_json::Value::from(argument);
    loop {
        let Some(world) = page.secondary_execution_context().await? else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        let mut evaluate = EvaluateParams::new(format!("({function})({argument}, {most})"));
        evaluate.context_id = Some(world);
        (evaluate.return_by_value, evaluate.await_promise) = (Some(true), Some(true));
        match page.evaluate_expression(evaluate).await {
            Ok(result) => {
                let broken = |error: serde_json::Error| Failure::Broken(format!("the page: {error}"));
                return result.into_value().map_err(broken);
            }
            Err(CdpError::JavascriptException(thrown)) => {
                let text = thrown.exception.and_then(|thrown| thrown.description).unwrap_or(thrown.text);
                let line = text.lines().next().unwrap_or_default().to_owned();
                return Err(match line.contains("is not a valid selector") {
                    true => Failure::Invalid(format!("selector: {line}")),
                    false => Failure::Broken(format!("the page: {line}")),
                });
            }
            Err(CdpError::Chrome(error)) if is_between_pages(&error.message) => {
                tokio::time::sleep(LOOK).await
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether nobody answered because the page was being replaced by the next.
fn is_between_pages(message: &str) -> bool {
    message.contains("context") || message.contains("Inspected target navigated")
}
