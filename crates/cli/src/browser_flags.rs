//! Flags for browser jobs of a worker.

use std::net::IpAddr;
use std::time::Duration;

use tidemill::WorkerBuilder;
use tidemill::browser::{Browsers, EgressRule, UseBrowsers};

use crate::time;

/// Whether a worker runs browser jobs, and which hosts their pages may reach.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Browser jobs")]
pub(crate) struct BrowserFlags {
    /// Run the jobs navigate_extract, screenshot, pdf and page_content on browsers of the fleet
    #[arg(long)]
    pub(crate) browser: bool,

    /// Time that a job waits for a free browser before it is returned to its queue without counting
    /// an attempt
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration, requires = "browser")]
    browser_wait: Duration,

    /// Allow pages to reach this machine and private networks (except link-local addresses)
    #[arg(long, requires = "browser")]
    allow_private: bool,

    /// Allow pages to reach a host, address or network: intranet.example, *.example, 10.1.2.3:8080,
    /// 10.0.0.0/8
    #[arg(long, value_name = "HOST", requires = "browser")]
    allow_host: Vec<EgressRule>,

    /// Address on which the egress proxies of pages listen; required if browsers run on other
    /// machines
    #[arg(long, value_name = "ADDRESS", requires_all = ["browser", "proxy_advertise"])]
    proxy_listen: Option<IpAddr>,

    /// Host name under which browsers on other machines reach the proxies
    #[arg(long, value_name = "HOST", requires_all = ["browser", "proxy_listen"])]
    proxy_advertise: Option<String>,
}

impl BrowserFlags {
    /// Adds the browser jobs to a worker if the flag is set.
    pub(crate) fn apply_to(self, worker: WorkerBuilder) -> WorkerBuilder {
        if !self.browser {
            return worker;
        }
        let mut browsers = Browsers::new().wait(self.browser_wait);
        if self.allow_private {
            browsers = browsers.allow_private();
        }
        browsers = self.allow_host.into_iter().fold(browsers, Browsers::allow);
        if let (Some(listen), Some(advertise)) = (self.proxy_listen, self.proxy_advertise) {
            browsers = browsers.proxy_at(listen, &advertise);
        }
        worker.browsers(browsers).browser_jobs()
    }
}
