//! Describing how a worker's jobs get browsers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::{WorkerDefaults, WorkerKind};
use tidemill_worker::{BuildError, Extension, WorkerBuilder};

use super::desk::Desk;
use super::guard::{Reach, Rule};
use super::jobs;
use super::keeper::Keeper;
use crate::terms::Lease;

/// What a browser may say in one message at least: how large the outputs of jobs are says nothing about events.
const LEAST_MESSAGE: u64 = 32 << 20;

/// How the jobs of a worker get browsers, and where these may go.
#[derive(Debug, Clone)]
#[must_use = "give it to a worker: `.browsers(…)`"]
pub struct Browsers {
    pub(super) wait: Duration,
    pub(super) line: u32,
    pub(super) lease: Lease,
    pub(super) reach: Reach,
    pub(super) guarded: bool,
    pub(super) listen: IpAddr,
    pub(super) advertise: Option<String>,
    pub(super) largest_output: usize,
    pub(super) standard: WorkerDefaults,
}

impl Default for Browsers {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(30),
            line: 1000,
            lease: Lease::default(),
            reach: Reach::default(),
            guarded: true,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            advertise: None,
            largest_output: 8 << 20,
            standard: WorkerDefaults::default(),
        }
    }
}

impl Browsers {
    /// As usual: Chromium, public addresses only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a job wait this long for a browser (30 s unless set). When there is none by then, the job goes back for a
    /// while, with no attempt counted.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Leases browsers for this long at a time (15 s unless set): so long one is lost to others when this process dies. A
    /// worker with less than 14 s cannot be built: a store that is away for a moment would cost jobs their browsers.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Lease { time: lease, brief: false };
        self
    }

    /// Like [`lease`](Self::lease), but takes any: for tests that cannot wait.
    #[doc(hidden)]
    pub fn brief_lease(mut self, lease: Duration) -> Self {
        self.lease = Lease { time: lease, brief: true };
        self
    }

    /// Allows pages to reach this machine and private networks; see [`Reach::allow_private`].
    pub fn allow_private(mut self) -> Self {
        self.reach = self.reach.allow_private();
        self
    }

    /// Allows pages to reach what `rule` says.
    pub fn allow(mut self, rule: Rule) -> Self {
        self.reach = self.reach.allow(rule);
        self
    }

    /// Lets browsers on other machines use this worker's proxies: opened at `listen`, and reached by the browsers at
    /// `advertise`. Without it only browsers on this machine are used, because the others could not be guarded.
    pub fn proxy_at(mut self, listen: IpAddr, advertise: &str) -> Self {
        (self.listen, self.advertise) = (listen, Some(advertise.to_owned()));
        self
    }

    /// Lets pages go wherever the browser can. Only for jobs whose pages are trusted, or browsers that are fenced in
    /// by other means.
    pub fn unguarded(mut self) -> Self {
        self.guarded = false;
        self
    }

    /// The largest output of the built-in jobs, in bytes (8 MiB unless set). A job that comes to more is dead.
    ///
    /// It bounds what a browser may say in one message, too, to handlers of one's own as well: four times this, and no less
    /// than 32 MiB. An event that is larger is left out, and a command whose answer is larger fails.
    pub fn largest_output(mut self, bytes: usize) -> Self {
        self.largest_output = bytes;
        self
    }

    /// The largest message of a browser. What is not a letter of English takes up to six bytes on the way, and of no more than
    /// three in the end, but for what no text has many of.
    pub(super) fn largest_message(&self) -> u64 {
        (self.largest_output as u64).saturating_mul(4).max(LEAST_MESSAGE)
    }

    pub(super) fn kind() -> WorkerKind {
        WorkerKind::chromium()
    }
}

/// What is said to a worker about browsers before it is built.
#[derive(Default)]
struct Description {
    browsers: Option<Browsers>,
    jobs: bool,
}

impl Extension for Description {
    fn install(self: Box<Self>, worker: WorkerBuilder) -> Result<WorkerBuilder, BuildError> {
        let browsers = self.browsers.unwrap_or_default();
        browsers.lease.check().map_err(|error| BuildError::Extension(error.to_string()))?;
        let desk = Arc::new(Desk::new(worker.client().store().clone(), browsers));
        let keeper = Keeper::new(desk.clone());
        let worker = worker.state(desk).background_task("keeper of browsers", |end| keeper.run(end));
        Ok(if self.jobs { jobs::handle_all(worker) } else { worker })
    }
}

/// What a worker needs for handlers that take a [`Browser`](super::Browser).
pub trait UseBrowsers {
    /// Gets browsers as `browsers` says.
    fn browsers(self, browsers: Browsers) -> Self;

    /// Handles the built-in jobs: `navigate_extract`, `screenshot`, `pdf` and `page_content`.
    fn browser_jobs(self) -> Self;
}

impl UseBrowsers for WorkerBuilder {
    fn browsers(self, browsers: Browsers) -> Self {
        self.extend(|known: &mut Description| known.browsers = Some(browsers))
    }

    fn browser_jobs(self) -> Self {
        self.extend(|known: &mut Description| known.jobs = true)
    }
}
