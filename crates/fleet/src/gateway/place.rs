//! Getting a place: asking the store for a browser, and waiting in line if there is none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tidemill_core::Error;
use tidemill_core::fleet::{Offer, SessionId};
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased, ListWorkersParams, WaitParams};

use super::desk::Desk;
use super::refusal::Refusal;
use super::wish::Wish;

/// How long a place in line lasts without asking again.
const PLACE: Duration = Duration::from_secs(3);

/// How often one that waits asks by itself. Often enough for a place to last though an answer is late.
const ASK: Duration = Duration::from_secs(1);

/// How often a lease is asked for whose answer is lost. The session is the same, so a lease that was given is given again.
const LEASE_TRIES: u32 = 3;

/// How long after the first try another one is made. A store that hangs has no answer for the next try either.
const LEASE_RETRY_WITHIN: Duration = Duration::from_secs(3);

/// Between two tries: the connection is opened anew.
const LEASE_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// How long there may be no worker at all before a client is sent away. Longer than the five seconds between two beats:
/// a store that has lost its data hears of everybody by then. A browser in use, or being replaced, is a worker.
const NO_WORKER: Duration = Duration::from_secs(8);

/// What may be waited for though there is none. Each kind and offer is a line of its own with its own places, and clients
/// name both: for anything else there is a line only while there is such a worker.
const USUAL: [&str; 3] = ["chromium", "firefox", "webkit"];

/// A session that the store may know, and that is given up when nobody wants it any more.
#[derive(Debug)]
pub(crate) struct Ticket {
    desk: Arc<Desk>,
    pub(crate) session: SessionId,
    wanted: bool,
}

impl Ticket {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        Self { desk, session: SessionId::generate(), wanted: true }
    }

    /// The session goes on without the ticket, among those that are held.
    pub(crate) fn used(mut self) -> SessionId {
        self.wanted = false;
        self.session.clone()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.wanted {
            self.desk.holdings.give_up(&self.session);
        }
    }
}

/// A wish on its way to a browser.
#[derive(Debug)]
pub(crate) struct Search {
    desk: Arc<Desk>,
    pub(crate) lease: LeaseParams,
    deadline: Instant,
    /// Since when there has been no worker at all.
    nobody_since: Option<Instant>,
}

impl Search {
    /// Prepares to look for what a client wants.
    pub(crate) fn new(desk: &Arc<Desk>, wish: &Wish, ticket: &Ticket) -> Result<Self, Refusal> {
        let options = &desk.options;
        let lease = LeaseParams {
            session: ticket.session.clone(),
            kind: wish.kind.clone(),
            offers: wish.offers()?,
            holder: desk.holder.clone(),
            ttl: options.lease.time,
            keep: wish.keep,
            detail: wish.detail()?,
            rejected: Vec::new(),
            wait: (options.queue_size > 0)
                .then_some(WaitParams { max_waiting: options.queue_size, ttl: PLACE }),
            defaults: options.standard,
        };
        let deadline = Instant::now() + options.queue_time;
        Ok(Self { desk: desk.clone(), lease, deadline, nobody_since: None })
    }

    /// Asks until there is a browser, or no hope of one.
    pub(crate) async fn place(&mut self, mut ticket: Ticket) -> Result<(Ticket, Grant), Refusal> {
        let mut leased;
        if self.is_unheard_of() {
            let line = self.lease.wait.take();
            (ticket, leased) = self.ask(ticket).await?;
            self.lease.wait = line;
            match leased {
                Leased::Granted(grant) => return Ok((ticket, grant)),
                Leased::Refused { workers: 0, .. } => self.check_there().await?,
                _ => {}
            }
        }
        (ticket, leased) = self.ask(ticket).await?;
        if let Leased::Granted(grant) = leased {
            return Ok((ticket, grant));
        }
        self.judge(&leased).await?;
        let desk = self.desk.clone();
        // From here on it is called; what was announced before, the next question finds out.
        let refuses = !self.lease.rejected.is_empty();
        let waiter = desk.lines.join(&self.lease.kind, &self.lease.offers[0], refuses);
        loop {
            let leased;
            (ticket, leased) = self.ask(ticket).await?;
            if let Leased::Granted(grant) = leased {
                return Ok((ticket, grant));
            }
            self.judge(&leased).await?;
            let next = self.deadline.min(Instant::now() + ASK.mul_f64(fastrand::f64().mul_add(0.2, 0.8)));
            tokio::select! {
                () = waiter.called() => {}
                () = tokio::time::sleep_until(next.into()) => {}
                () = desk.stopping.cancelled() => return Err(Refusal::stopping()),
            }
        }
    }

    /// Asks the store once. In a task of its own, which goes on if the client goes: only then is it known what there
    /// is to be given up, and giving it up does not overtake the question.
    async fn ask(&self, ticket: Ticket) -> Result<(Ticket, Leased), Refusal> {
        let (desk, lease) = (self.desk.clone(), self.lease.clone());
        let asked = tokio::spawn(async move {
            let began = Instant::now();
            let leased = repeat_lease(&desk, &lease).await;
            desk.metrics.lease.observe(began.elapsed());
            desk.heard(&leased);
            (ticket, leased)
        });
        let gone = |_| Refusal::busy("store", "the store is not available", ASK);
        let (ticket, leased) = asked.await.map_err(gone)?;
        Ok((ticket, leased?))
    }

    /// Whether there is any use in waiting.
    async fn judge(&mut self, leased: &Leased) -> Result<(), Refusal> {
        let (workers, refused) = match leased {
            Leased::Granted(_) => return Ok(()),
            Leased::Waiting { workers, .. } => (*workers, None),
            Leased::Refused { workers, waiting } => (*workers, Some(*waiting)),
        };
        if workers == 0 {
            self.check_version().await?;
        }
        match refused {
            // The clients before it wait for a browser that is there or was a moment ago.
            Some(waiting) if self.lease.wait.is_some() => Err(full(waiting)),
            Some(_) if workers == 0 => Err(self.nobody()),
            Some(_) => Err(Refusal::busy("busy", format!("no {} is free", self.lease.kind), ASK)),
            None => self.check_time(workers),
        }
    }

    fn check_time(&mut self, workers: u32) -> Result<(), Refusal> {
        let now = Instant::now();
        self.nobody_since = (workers == 0).then(|| self.nobody_since.unwrap_or(now));
        if self.nobody_since.is_some_and(|since| now.duration_since(since) >= NO_WORKER) {
            return Err(self.nobody());
        }
        if now >= self.deadline {
            let message =
                format!("no {} became free within {:?}", self.lease.kind, self.desk.options.queue_time);
            return Err(Refusal::busy("queue_time", message, ASK));
        }
        Ok(())
    }

    fn nobody(&self) -> Refusal {
        let offers: Vec<_> = self.lease.offers.iter().map(ToString::to_string).collect();
        let message = format!("there is no {} that speaks {}", self.lease.kind, offers.join(" or "));
        Refusal::busy("no_worker", message, NO_WORKER)
    }

    /// Whether it must be found out first if there is anything to wait for. One whose browser did not answer has had its
    /// turn, and must not lose it by asking for no place in line.
    fn is_unheard_of(&self) -> bool {
        let usual = USUAL.contains(&self.lease.kind.as_str()) && !self.is_of_a_version();
        !usual && self.lease.wait.is_some() && self.lease.rejected.is_empty()
    }

    fn is_of_a_version(&self) -> bool {
        self.lease.offers[0].as_str().starts_with("playwright-")
    }

    /// Lets wait for a worker that is there, even if it takes nobody just now.
    async fn check_there(&self) -> Result<(), Refusal> {
        let there = self.offers_there().await?;
        if there.iter().any(|offer| self.lease.offers.contains(offer)) {
            return Ok(());
        }
        self.check_version().await?;
        Err(self.nobody())
    }

    /// A client of Playwright that no server fits is told which would: waiting does not change its version.
    async fn check_version(&self) -> Result<(), Refusal> {
        if !self.is_of_a_version() {
            return Ok(());
        }
        let (wanted, mut versions) = (&self.lease.offers[0], self.offers_there().await?);
        let fits = |offer: &_| self.lease.offers.contains(offer);
        versions.retain(|offer| fits(offer) || offer.as_str().starts_with("playwright-"));
        if versions.is_empty() || versions.iter().any(fits) {
            return Ok(());
        }
        versions.sort_unstable();
        versions.dedup();
        Err(wrong_version(wanted.as_str(), &versions.iter().map(ToString::to_string).collect::<Vec<_>>()))
    }

    /// What the workers of the kind offer.
    async fn offers_there(&self) -> Result<Vec<Offer>, Refusal> {
        let (mut offers, mut cursor) = (Vec::new(), None);
        loop {
            let list = ListWorkersParams { kind: Some(&self.lease.kind), cursor, limit: 256 };
            let page = self.desk.fleet().list_workers(list).await?;
            offers.extend(page.items.into_iter().map(|info| info.worker.offer));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(offers);
            }
        }
    }
}

/// Leases, and repeats that when the answer is lost: the first try may have leased a browser, which nobody would use.
async fn repeat_lease(desk: &Desk, lease: &LeaseParams) -> Result<Leased, Error> {
    let began = Instant::now();
    for _ in 1..LEASE_TRIES {
        match desk.fleet().lease(lease).await {
            Err(error) if error.is_unavailable() && began.elapsed() < LEASE_RETRY_WITHIN => {}
            answer => return answer,
        }
        tokio::time::sleep(LEASE_RETRY_PAUSE).await;
    }
    desk.fleet().lease(lease).await
}

fn wrong_version(wanted: &str, there: &[String]) -> Refusal {
    let plain = |offer: &str| offer.trim_start_matches("playwright-").to_owned();
    let there: Vec<_> = there.iter().map(|offer| plain(offer)).collect();
    let message = format!(
        "this client is Playwright {}, and there are servers for Playwright {} only: use one of these versions, or connectOverCDP",
        plain(wanted),
        there.join(", ")
    );
    Refusal::new(StatusCode::PRECONDITION_REQUIRED, "playwright_version", message)
}

fn full(waiting: u32) -> Refusal {
    let message = format!("{waiting} clients wait already");
    let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message);
    Refusal { retry_after: Some(ASK), ..refusal }
}
