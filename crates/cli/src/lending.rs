//! Browsers for a worker's jobs, as its flags say.

use std::net::IpAddr;
use std::time::Duration;

use tidemill::WorkerBuilder;
use tidemill::browser::{Browsers, EgressRule, UseBrowsers};

use crate::when;

/// Whether a worker runs browser jobs, and where their pages may go.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Browser jobs")]
pub(crate) struct Lending {
    /// Run the jobs navigate_extract, screenshot, pdf and page_content on browsers of the fleet
    #[arg(long)]
    pub(crate) browser: bool,

    /// How long a job waits for a free browser before it goes back to its queue, uncounted
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = when::duration, requires = "browser")]
    browser_wait: Duration,

    /// Let pages reach this machine and private networks (but not link-local addresses)
    #[arg(long, requires = "browser")]
    allow_private: bool,

    /// Let pages reach a host, address or network: intranet.example, *.example, 10.1.2.3:8080, 10.0.0.0/8
    #[arg(long, value_name = "HOST", requires = "browser")]
    allow_host: Vec<EgressRule>,

    /// Where the proxies listen through which pages reach anything; needed if browsers are on other machines
    #[arg(long, value_name = "ADDRESS", requires_all = ["browser", "proxy_advertise"])]
    proxy_listen: Option<IpAddr>,

    /// By which name browsers on other machines reach those proxies
    #[arg(long, value_name = "HOST", requires_all = ["browser", "proxy_listen"])]
    proxy_advertise: Option<String>,
}

impl Lending {
    /// Adds the browser jobs to a worker, if they are wanted.
    pub(crate) fn lend(self, worker: WorkerBuilder) -> WorkerBuilder {
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
