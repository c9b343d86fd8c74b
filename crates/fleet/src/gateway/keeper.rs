//! Tells the store which sessions are held and which are over: all at once, in order, from one task.
//!
//! One task, so that what was said of a session first arrives first: a session that was released is never held again by
//! an attach that was on its way.

use std::time::{Duration, Instant};

use tidemill_core::Error;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{AttachParams, Attached, ReleaseParams};
use tokio_util::sync::CancellationToken;

use super::desk::Desk;
use super::holdings::{Book, Cut, Held, Stay};
use crate::terms::{self, AGAIN, HEARD};

/// How many sessions go into one call: a script must not hold up a server.
const BATCH: usize = 500;

/// How soon all are looked at again when something may have been missed: doubts come in flocks.
const DOUBT: Duration = Duration::from_millis(500);

/// How soon the store is asked again about sessions that wake-ups name: anyone may publish a flood of those.
const ASK_INTERVAL: Duration = Duration::from_millis(200);

/// How long the last of it may take.
const TO_END: Duration = Duration::from_secs(5);

/// The first and the longest pause after the store did not answer.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

const _: () = assert!(PAUSES.1.as_millis() <= AGAIN.as_millis());

/// What the store is told next.
#[derive(Debug, Default)]
struct Round {
    /// It is about all sessions there are.
    all: bool,
    attach: Vec<Telling>,
    release: Vec<ReleaseParams>,
}

/// What the store is told of one session that is held.
#[derive(Debug)]
struct Telling {
    /// Which connection of the session it is about.
    turn: u64,
    /// Whether a wake-up asked for it.
    doubted: bool,
    attach: AttachParams,
}

/// Keeps the store informed until `stop`, and then of the rest.
pub(crate) async fn run(desk: &Desk, stop: CancellationToken) {
    let (every, mut pause) = (period(desk), None);
    let (mut looked, mut last_end) = (Instant::now(), None);
    loop {
        let stopping = stop.is_cancelled();
        let round = collect(desk, looked.elapsed());
        if round.all {
            looked = Instant::now();
        }
        let (quiet, told) = (round.is_empty(), tell(desk, round).await);
        pause = (!told).then(|| pause.map_or(PAUSES.0, |pause: Duration| (pause * 2).min(PAUSES.1)));
        if stopping && (quiet || last_end.get_or_insert_with(Instant::now).elapsed() > TO_END) {
            return;
        }
        match pause {
            Some(pause) => tokio::time::sleep(pause).await,
            None => rest(desk, &stop, looked + every).await,
        }
    }
}

/// How often everything is said again.
fn period(desk: &Desk) -> Duration {
    terms::period(desk.options.lease.time)
}

impl Round {
    fn is_empty(&self) -> bool {
        self.attach.is_empty() && self.release.is_empty()
    }
}

/// Waits until there is something to tell.
async fn rest(desk: &Desk, stop: &CancellationToken, next: Instant) {
    let (next, doubted) = {
        let book = desk.holdings.book();
        let ends = book.held.values().filter_map(|held| match held.stay {
            Stay::Kept(until) => Some(until),
            Stay::Connected { .. } => None,
        });
        let asks = book.asked.filter(|_| !book.named.is_empty()).map(|asked| asked + ASK_INTERVAL);
        (ends.chain(asks).fold(next, Instant::min), book.doubted)
    };
    let next = if doubted { next.min(Instant::now() + DOUBT) } else { next };
    tokio::select! {
        () = desk.holdings.changed() => {}
        () = tokio::time::sleep_until(next.into()) => {}
        () = stop.cancelled() => {}
    }
}

/// What there is to tell: of all if it is time or there is doubt, of those that are urgent, and of those that are over.
fn collect(desk: &Desk, since: Duration) -> Round {
    let mut book = desk.holdings.book();
    end_forgotten(&mut book);
    let all = since >= period(desk) || (since >= DOUBT && book.doubted);
    if all {
        book.doubted = false;
    }
    let mut urgent = std::mem::take(&mut book.urgent);
    if !book.named.is_empty() && book.asked.is_none_or(|asked| asked.elapsed() >= ASK_INTERVAL) {
        urgent.extend(book.named.drain());
        book.asked = Some(Instant::now());
    }
    // One that is kept is told once: it lasts for as long as it was to be kept, and not from now again and again.
    let is_told = |session: &SessionId, held: &Held| {
        urgent.contains(session) || (all && matches!(held.stay, Stay::Connected { .. }))
    };
    let told = book.held.iter_mut().filter(|(session, held)| is_told(session, held));
    let attach = told.map(|(session, held)| tell_of(desk, session, held)).collect();
    let release = std::mem::take(&mut book.over).into_iter();
    let release = release.map(|session| ReleaseParams { session, holder: desk.holder.clone() }).collect();
    Round { all, attach, release }
}

/// Nobody came back in time.
fn end_forgotten(book: &mut Book) {
    let now = Instant::now();
    let forgotten =
        book.held.iter().filter(|(_, held)| matches!(held.stay, Stay::Kept(until) if until <= now));
    let forgotten: Vec<_> = forgotten.map(|(session, _)| session.clone()).collect();
    forgotten.iter().for_each(|session| book.end(session));
}

fn tell_of(desk: &Desk, session: &SessionId, held: &mut Held) -> Telling {
    let attach = attach(desk, session, held);
    held.told = true;
    Telling { turn: held.turn, doubted: std::mem::take(&mut held.doubted), attach }
}

fn attach(desk: &Desk, session: &SessionId, held: &Held) -> AttachParams {
    let (connected, take) = match &held.stay {
        Stay::Connected { verdict, .. } => (true, verdict.is_some()),
        Stay::Kept(_) => (false, false),
    };
    let keep = held.terms.keep();
    let ttl = if connected { desk.options.lease.time } else { keep };
    AttachParams {
        must_exist: held.must_exist(),
        session: session.clone(),
        worker: held.terms.member.clone(),
        holder: desk.holder.clone(),
        ttl,
        keep,
        connected,
        take_over: take,
        detail: held.terms.detail.clone(),
        started_at: held.terms.started_at,
    }
}

/// Tells the store; what it does not hear is told again. Whether it heard all. What is over comes first: a session that
/// was over and has been taken back since would otherwise be released after it was attached.
async fn tell(desk: &Desk, round: Round) -> bool {
    let released = tell_over(desk, round.release).await;
    tell_held(desk, round.attach).await && released
}

async fn tell_held(desk: &Desk, attach: Vec<Telling>) -> bool {
    let mut heard = true;
    for part in attach.chunks(BATCH) {
        let calls: Vec<_> = part.iter().map(|telling| telling.attach.clone()).collect();
        let answer = in_time(desk, desk.fleet().attach(&calls)).await;
        desk.heard(&answer);
        match answer {
            Ok(answers) => part.iter().zip(answers).for_each(|(telling, answer)| obey(desk, telling, answer)),
            Err(_) => {
                heard = false;
                // Nothing is closed because the store is away.
                tell_again(&mut desk.holdings.book(), part);
            }
        }
    }
    heard
}

/// The store has not heard this.
fn tell_again(book: &mut Book, part: &[Telling]) {
    for Telling { turn, doubted, attach } in part {
        if let Some(held) = book.held.get_mut(&attach.session).filter(|held| held.turn == *turn) {
            held.doubted |= doubted;
        }
        book.urgent.insert(attach.session.clone());
    }
}

async fn tell_over(desk: &Desk, release: Vec<ReleaseParams>) -> bool {
    let mut heard = true;
    for part in release.chunks(BATCH) {
        let answer = in_time(desk, desk.fleet().release(part)).await;
        desk.heard(&answer);
        if answer.is_err() {
            heard = false;
            desk.holdings.book().still_over(part.iter().map(|release| &release.session));
        }
    }
    heard
}

/// A store that hangs is away.
async fn in_time<T>(desk: &Desk, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = || Error::Unavailable { message: "it did not answer in time".into(), source: None };
    tokio::time::timeout(desk.options.lease.time.min(HEARD), call).await.unwrap_or_else(|_| Err(late()))
}

/// Does what the store said of a session.
fn obey(desk: &Desk, Telling { turn, attach: call, .. }: &Telling, answer: Attached) {
    let mut book = desk.holdings.book();
    let Some(held) = book.held.get_mut(&call.session).filter(|held| held.turn == *turn) else { return };
    held.known = true;
    if let Stay::Connected { verdict, .. } = &mut held.stay
        && let Some(verdict) = verdict.take()
    {
        let _ = verdict.send(answer);
    }
    match answer {
        Attached::Held => {}
        Attached::Closing => {
            held.cut(Cut::Closed);
            book.end(&call.session);
            desk.holdings.look_again();
        }
        Attached::Lost => {
            held.cut(Cut::Lost);
            book.urgent.remove(&call.session);
            book.held.remove(&call.session);
        }
    }
}
