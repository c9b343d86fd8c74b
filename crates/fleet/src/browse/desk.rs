//! Where the jobs of a worker get their browsers: one desk for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::fleet::{Offer, SessionId, WorkerKey};
use tidemill_core::store::fleet::{
    AttachParams, Grant, LeaseParams, Leased, ListWorkersParams, ReleaseParams, WaitParams,
};
use tidemill_core::{Error, HolderId, Store};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::browser::Browser;
use super::browsers::Browsers;
use super::failure::{NoBrowser, Unopened};
use super::link::{Link, is_elsewhere};
use super::ticket::Ticket;

/// How long a store may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a place in line lasts without asking again.
const IN_LINE: Duration = Duration::from_secs(10);

/// How often to ask again when nobody calls: a call may be lost.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// How many browsers that cannot be used a job is given before it goes back.
const TRIES: usize = 4;

/// How long to wait after one.
const REST: Duration = Duration::from_secs(1);

/// Of a fleet of more browsers than this, nobody looks whether all are on other machines.
const MOST: usize = 100;

/// Leases browsers and remembers who has one.
#[doc(hidden)]
pub struct Desk {
    pub(super) store: Arc<dyn Store>,
    pub(super) browsers: Browsers,
    book: Mutex<Book>,
    /// Told when there is something to give back.
    pub(super) returned: Notify,
    /// Told when there may be places.
    pub(super) places: Notify,
}

#[derive(Default)]
struct Book {
    held: HashMap<SessionId, Hold>,
    /// Sessions and places in line that are over.
    over: Vec<ReleaseParams>,
    /// Whether this worker could use the last browser it was given.
    fits: bool,
    /// When the next may try, and why it should not be sooner.
    misfit: Option<(Instant, Unopened)>,
}

/// A session that is held.
struct Hold {
    attach: AttachParams,
    /// Cancelled when the session must end.
    lost: CancellationToken,
    /// Whether the store has heard that this worker uses it. From then on it remembers that the session is to end.
    known: bool,
}

/// Who asks for a browser.
pub(super) struct Wish {
    pub(super) holder: HolderId,
    pub(super) detail: bytes::Bytes,
}

impl Desk {
    pub(super) fn new(store: Arc<dyn Store>, browsers: Browsers) -> Self {
        let (book, returned, places) = (Mutex::default(), Notify::new(), Notify::new());
        Self { store, browsers, book, returned, places }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A browser, or why there was none in time. Dropped half-way, it gives back whatever it has got so far.
    pub(super) async fn browser(self: Arc<Self>, wish: Wish) -> Result<Browser, NoBrowser> {
        let deadline = Instant::now() + self.browsers.wait;
        let ticket = Ticket::new(self.clone(), wish.holder.clone());
        let (mut why, mut refused) = (NoBrowser::default(), Vec::new());
        self.rest(deadline).await.map_err(NoBrowser::Misfit)?;
        self.fits().await.map_err(NoBrowser::Misfit)?;
        loop {
            // Registered before asking, so that a call between the two is not missed.
            let mut called = std::pin::pin!(self.places.notified());
            called.as_mut().enable();
            match self.ask(&ticket, &wish, &refused).await {
                Ok(Leased::Granted(grant)) => match self.open(&grant, &ticket, &wish).await {
                    Ok((link, lost)) => return Ok(Browser::new(link, grant.worker, lost, ticket)),
                    Err(error) => {
                        debug!(member = %grant.worker, "a browser cannot be used: {error}");
                        let is_misfit = error.is_misfit();
                        why = NoBrowser::Unusable { member: grant.worker.clone(), error };
                        refused.push(grant.worker);
                        if is_misfit || refused.len() >= TRIES {
                            return Err(why);
                        }
                        // Each try may use up a browser that takes one session, and is served before all who wait.
                        sleep_until(deadline.min(Instant::now() + REST)).await;
                        if Instant::now() < deadline {
                            continue;
                        }
                    }
                },
                Ok(Leased::Waiting { ahead, workers }) => why.is_waiting(ahead, workers),
                Ok(Leased::Refused { waiting, workers }) => why = NoBrowser::LineFull { waiting, workers },
                Err(error) => why = NoBrowser::Store(error.full_message()),
            }
            let again = Instant::now() + ASK_AGAIN.mul_f64(0.75 + 0.5 * fastrand::f64());
            let _ = timeout_at(deadline.min(again), called).await;
            if Instant::now() >= deadline {
                return Err(why);
            }
        }
    }

    /// After this worker was given a browser that it cannot use, its jobs try one at a time: a queue full of them must not
    /// use up a browser each.
    async fn rest(&self, deadline: Instant) -> Result<(), Unopened> {
        let turn = {
            let mut book = self.book();
            let Some((until, error)) = &mut book.misfit else { return Ok(()) };
            let turn = (*until).max(Instant::now());
            if turn > deadline {
                return Err(error.clone());
            }
            *until = turn + REST;
            turn
        };
        sleep_until(turn).await;
        Ok(())
    }

    /// Whether this worker, as it is set up, can use any browser of the fleet's: a lease would only use one up to find out.
    /// Once one could be used there is no need to ask.
    async fn fits(&self) -> Result<(), Unopened> {
        let browsers = &self.browsers;
        if !browsers.guarded || self.book().fits {
            return Ok(());
        }
        TcpListener::bind((browsers.listen, 0))
            .await
            .map_err(|error| Unopened::NoProxy(error.to_string()))?;
        if !browsers.listen.is_loopback() {
            return Ok(());
        }
        let kind = Browsers::kind();
        let list = ListWorkersParams { kind: Some(&kind), cursor: None, limit: MOST };
        // A store that does not answer is found out by asking it for a browser.
        let Ok(Ok(page)) = timeout(ANSWER, self.store.fleet().list_workers(list)).await else {
            return Ok(());
        };
        let mut members = page.items.iter().filter(|info| info.worker.offer == Offer::cdp()).peekable();
        let is_all = page.next.is_none() && members.peek().is_some();
        match is_all && members.all(|info| is_elsewhere(&info.worker.endpoint)) {
            true => Err(Unopened::Elsewhere),
            false => Ok(()),
        }
    }

    /// Remembers whether a browser could be used.
    fn learn(&self, error: Option<&Unopened>) {
        let mut book = self.book();
        match error {
            None => (book.fits, book.misfit) = (true, None),
            Some(error) if error.is_misfit() => {
                (book.fits, book.misfit) = (false, Some((Instant::now() + REST, error.clone())));
            }
            Some(_) => {}
        }
    }

    async fn ask(&self, ticket: &Ticket, wish: &Wish, refused: &[WorkerKey]) -> Result<Leased, Error> {
        let lease = LeaseParams {
            session: ticket.session().clone(),
            kind: Browsers::kind(),
            offers: vec![Offer::cdp()],
            holder: wish.holder.clone(),
            ttl: self.browsers.lease.time,
            keep: Duration::ZERO,
            detail: wish.detail.clone(),
            rejected: refused.to_vec(),
            wait: Some(WaitParams { max_waiting: self.browsers.line, ttl: IN_LINE }),
            defaults: self.browsers.standard,
        };
        match timeout(ANSWER, self.store.fleet().lease(&lease)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Unavailable { message: "leasing was not answered".into(), source: None }),
        }
    }

    /// Connects to a member that was given, and keeps it from now on.
    async fn open(
        &self,
        grant: &Grant,
        ticket: &Ticket,
        wish: &Wish,
    ) -> Result<(Link, CancellationToken), Unopened> {
        let lost = self.hold(grant, ticket.session(), wish);
        let link = Link::open(&grant.endpoint, &self.browsers, lost.clone()).await;
        self.learn(link.as_ref().err());
        if link.is_err() {
            self.book().held.remove(ticket.session());
        }
        Ok((link?, lost))
    }

    fn hold(&self, grant: &Grant, session: &SessionId, wish: &Wish) -> CancellationToken {
        let attach = AttachParams {
            session: session.clone(),
            worker: grant.worker.clone(),
            holder: wish.holder.clone(),
            ttl: self.browsers.lease.time,
            keep: Duration::ZERO,
            connected: true,
            take_over: false,
            must_exist: false,
            detail: wish.detail.clone(),
            started_at: self.store.clock().now(),
        };
        let lost = CancellationToken::new();
        self.book().held.insert(session.clone(), Hold { attach, lost: lost.clone(), known: false });
        lost
    }

    /// A session, or a place in line, is over.
    pub(super) fn take_back(&self, session: SessionId, holder: HolderId) {
        let mut book = self.book();
        book.held.remove(&session);
        book.over.push(ReleaseParams { session, holder });
        drop(book);
        self.returned.notify_one();
    }

    /// Everything that is held.
    pub(super) fn held(&self) -> Vec<AttachParams> {
        self.book().held.values().map(|hold| hold.attach.clone()).collect()
    }

    /// Everything that is over; it is forgotten here.
    pub(super) fn over(&self) -> Vec<ReleaseParams> {
        std::mem::take(&mut self.book().over)
    }

    /// What could not be released after all.
    pub(super) fn not_over(&self, releases: Vec<ReleaseParams>) {
        self.book().over.extend(releases);
    }

    /// A wake-up says that a session is to end. Anyone may publish one, so the store is to be asked; whether this worker
    /// holds the session at all.
    pub(super) fn doubt(&self, session: &SessionId) -> bool {
        let mut book = self.book();
        let Some(hold) = book.held.get_mut(session) else { return false };
        hold.attach.must_exist = !hold.known;
        true
    }

    /// The store has heard that this worker uses the session.
    pub(super) fn is_known(&self, session: &SessionId) {
        if let Some(hold) = self.book().held.get_mut(session) {
            (hold.known, hold.attach.must_exist) = (true, false);
        }
    }

    /// A session must end.
    pub(super) fn lose(&self, session: &SessionId) {
        if let Some(hold) = self.book().held.get(session) {
            hold.lost.cancel();
        }
    }
}
