//! The configuration of browsers for a worker's jobs.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::{WorkerDefaults, WorkerKind};
use tidemill_worker::{BuildError, Extension, WorkerBuilder};

use super::egress::{EgressPolicy, EgressRule};
use super::jobs;
use super::pool::BrowserPool;
use crate::timing::LeaseOptions;

/// The least message limit: the size of events does not depend on the size of outputs.
const MIN_MESSAGE_LIMIT_BYTES: u64 = 32 << 20;

/// How a worker's jobs get browsers, and what their pages may reach.
#[derive(Debug, Clone)]
#[must_use = "give it to a worker: `.browsers(…)`"]
pub struct Browsers {
    pub(super) wait: Duration,
    pub(super) max_waiting: u32,
    pub(super) lease: LeaseOptions,
    pub(super) policy: EgressPolicy,
    pub(super) is_proxied: bool,
    pub(super) listen: IpAddr,
    pub(super) advertise: Option<String>,
    pub(super) max_output_bytes: usize,
    pub(super) worker_defaults: WorkerDefaults,
}

impl Default for Browsers {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(30),
            max_waiting: 1000,
            lease: LeaseOptions::default(),
            policy: EgressPolicy::default(),
            is_proxied: true,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            advertise: None,
            max_output_bytes: 8 << 20,
            worker_defaults: WorkerDefaults::default(),
        }
    }
}

impl Browsers {
    /// The defaults: Chromium, public addresses only.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a job waits for a browser. Default: 30 s. After that the job is postponed without
    /// counting an attempt.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The duration of a browser lease. Default: 15 s. If this process dies, its browsers are
    /// unavailable for that long. A worker with less than 14 s cannot be built: a short outage of
    /// the store would cost jobs their browsers.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = LeaseOptions { duration: lease, allow_short: false };
        self
    }

    /// Like [`lease`](Self::lease) without a lower bound, for tests.
    #[doc(hidden)]
    pub fn lease_unchecked(mut self, lease: Duration) -> Self {
        self.lease = LeaseOptions { duration: lease, allow_short: true };
        self
    }

    /// Allows pages to reach this machine and private networks; see
    /// [`EgressPolicy::allow_private`].
    pub fn allow_private(mut self) -> Self {
        self.policy = self.policy.allow_private();
        self
    }

    /// Allows pages to reach what `rule` matches.
    pub fn allow(mut self, rule: EgressRule) -> Self {
        self.policy = self.policy.allow(rule);
        self
    }

    /// Lets browsers on other machines use this worker's proxies, which listen at `listen` and are
    /// reached at `advertise`. Without it, only browsers on this machine are used: others could not
    /// reach the proxy.
    pub fn proxy_at(mut self, listen: IpAddr, advertise: &str) -> Self {
        (self.listen, self.advertise) = (listen, Some(advertise.to_owned()));
        self
    }

    /// Lets pages reach whatever the browser can. Only for trusted pages, or for browsers that are
    /// isolated by other means.
    pub fn without_proxy(mut self) -> Self {
        self.is_proxied = false;
        self
    }

    /// The largest output of a built-in job, in bytes. Default: 8 MiB. A job with a larger output
    /// dies.
    ///
    /// It also bounds a browser's messages, for custom handlers too: four times this, and at least
    /// 32 MiB. A larger event is dropped, and a command with a larger response fails.
    pub fn max_output_bytes(mut self, bytes: usize) -> Self {
        self.max_output_bytes = bytes;
        self
    }

    /// The largest message of a browser. A character escaped as `\uXXXX` takes six bytes on the
    /// wire and at most three in the output, so four times the output is enough for ordinary text.
    pub(super) fn max_message_bytes(&self) -> u64 {
        (self.max_output_bytes as u64).saturating_mul(4).max(MIN_MESSAGE_LIMIT_BYTES)
    }

    pub(super) fn kind() -> WorkerKind {
        WorkerKind::chromium()
    }
}

/// The browser options of a worker that is being built.
#[derive(Default)]
struct BrowserExtension {
    browsers: Option<Browsers>,
    jobs: bool,
}

impl Extension for BrowserExtension {
    fn install(self: Box<Self>, worker: WorkerBuilder) -> Result<WorkerBuilder, BuildError> {
        let browsers = self.browsers.unwrap_or_default();
        browsers.lease.check().map_err(|error| BuildError::Extension(error.to_string()))?;
        let pool = Arc::new(BrowserPool::new(worker.client().store().clone(), browsers));
        let leases = pool.leases.clone();
        let renew = move |end| async move { leases.run(end).await };
        let worker = worker.state(pool).background_task("browser session renewal", renew);
        Ok(if self.jobs { jobs::handle_all(worker) } else { worker })
    }
}

/// Browser support for a worker whose handlers take a [`Browser`](super::Browser).
pub trait UseBrowsers {
    /// Configures how jobs get browsers.
    fn browsers(self, browsers: Browsers) -> Self;

    /// Handles the built-in jobs: `navigate_extract`, `screenshot`, `pdf` and `page_content`.
    fn browser_jobs(self) -> Self;
}

impl UseBrowsers for WorkerBuilder {
    fn browsers(self, browsers: Browsers) -> Self {
        self.extend(|extension: &mut BrowserExtension| extension.browsers = Some(browsers))
    }

    fn browser_jobs(self) -> Self {
        self.extend(|extension: &mut BrowserExtension| extension.jobs = true)
    }
}
