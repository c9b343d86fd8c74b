//! The protocols between clients and browsers.

use std::str::FromStr;

use tidemill_core::fleet::{Offer, WorkerKind};
use tidemill_core::name::InvalidName;

use super::http_error::HttpError;

/// The protocol between a client and its browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The Chrome DevTools Protocol.
    Cdp,
    /// WebDriver BiDi.
    Bidi,
    /// The protocol of Playwright's server, which changes with each minor version.
    Playwright,
}

impl Protocol {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Cdp => "cdp",
            Self::Bidi => "bidi",
            Self::Playwright => "playwright",
        }
    }

    /// The protocol of an offer.
    pub(crate) fn from_offer(offer: &Offer) -> Option<Self> {
        offer.as_str().split('-').next()?.parse().ok()
    }

    /// The offers that suit this protocol, best first. `version` is the client's Playwright
    /// version. A server of unknown version may fit too.
    pub(crate) fn offers(self, version: Option<&str>) -> Result<Vec<Offer>, InvalidName> {
        let exact = version
            .filter(|_| self == Self::Playwright)
            .map(|version| Offer::new(&format!("playwright-{version}")));
        exact.into_iter().chain([Offer::new(self.as_str())]).collect()
    }

    /// Fills in the kind or the protocol that the client left out.
    pub(crate) fn resolve(
        kind: Option<WorkerKind>,
        protocol: Option<Self>,
    ) -> Result<(WorkerKind, Self), HttpError> {
        let usual = if protocol == Some(Self::Bidi) { "firefox" } else { "chromium" };
        let kind = kind.map_or_else(|| WorkerKind::new(usual), Ok);
        let kind = kind.map_err(|error| HttpError::invalid(error.to_string()))?;
        let protocol = protocol.unwrap_or(match kind.as_str() {
            "firefox" => Self::Bidi,
            "webkit" => Self::Playwright,
            _ => Self::Cdp,
        });
        Ok((kind, protocol))
    }
}

impl FromStr for Protocol {
    type Err = HttpError;
    fn from_str(text: &str) -> Result<Self, HttpError> {
        [Self::Cdp, Self::Bidi, Self::Playwright]
            .into_iter()
            .find(|protocol| protocol.as_str() == text)
            .ok_or_else(|| HttpError::invalid("the protocols are cdp, bidi and playwright"))
    }
}

/// Extracts `1.64` from `Playwright/1.64.1 (x64; …)`.
pub(crate) fn playwright_version(agent: &str) -> Option<String> {
    let version = agent.split_once("Playwright/")?.1.split([' ', ';']).next()?;
    let mut numbers = version.split(['.', '-']);
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u16>().ok());
    Some(format!("{}.{}", number(numbers.next())?, number(numbers.next())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_major_and_a_minor() {
        assert_eq!(playwright_version("Playwright/1.64.1 (x64)").as_deref(), Some("1.64"));
        assert_eq!(playwright_version("Playwright/1.65.0-next node/20").as_deref(), Some("1.65"));
        assert_eq!(playwright_version("Playwright/unknown"), None);
        assert_eq!(playwright_version("Puppeteer 24"), None);
    }

    #[test]
    fn an_offer_says_how_it_is_spoken_to() {
        let of = |text| Protocol::from_offer(&Offer::new(text).unwrap());
        assert_eq!(of("playwright-1.64"), Some(Protocol::Playwright));
        assert_eq!([of("bidi"), of("cdp"), of("vnc")], [Some(Protocol::Bidi), Some(Protocol::Cdp), None]);
    }
}
