//! Wake-ups by LISTEN and NOTIFY, on one connection of its own that is opened when it is first needed and
//! reopened when it is cut.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidemill_core::Error;
use tidemill_core::store::{Finding, Severity};
use tidemill_core::wake::Subscribers;
use tidemill_core::wake::Wake;
use tidemill_core::wake::{Hint, Message, MessageStream, Pending, SendTiming, Subject, Transport, WakeBatch};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;

use crate::clock::ServerClock;
use crate::connection::{Connection, Opener};
use crate::error::classify;
use crate::pool::{Pool, in_time};
use crate::sql::{IDENTITY, NOTIFY};

/// The rest after each errand: what is told meanwhile goes out together, so there is at most one notification
/// per queue and millisecond, however many jobs are made.
const REST: Duration = Duration::from_millis(1);

/// How long after an errand whoever makes work does not wait for the next: about what making a job costs.
const BUSY: Duration = Duration::from_millis(5);

/// The rest after a failure.
const RETRY: Duration = Duration::from_millis(400);

/// How long whoever makes work waits for the others to be told of it. A hint is not worth more.
const PATIENCE: Duration = Duration::from_millis(250);

/// Carries wake-ups between the processes that share a database.
pub(crate) struct Herald {
    desk: Arc<Desk>,
    work: JoinHandle<()>,
}

/// What the herald has to do, and for whom.
struct Desk {
    pool: Arc<Pool>,
    /// How connections for LISTEN are opened, if not like the others.
    listen: Option<Opener>,
    /// Whether it was said in the log how wake-ups travel.
    said: AtomicBool,
    satchel: Pending,
    listeners: Subscribers<Message>,
    /// Whether anybody here wants to hear from other processes.
    wanted: AtomicBool,
    begin: Notify,
}

impl Desk {
    fn opener(&self) -> &Opener {
        self.listen.as_ref().unwrap_or(&self.pool.opener)
    }

    /// How wake-ups from other processes come here.
    fn way(&self) -> Way {
        match &self.listen {
            Some(_) => Way::OwnUrl,
            None if self.pool.opener.is_pooled() => Way::Polling,
            None => Way::SameUrl,
        }
    }

    /// Says in the log, once, how wake-ups travel.
    fn say_way(&self) {
        if self.said.swap(true, Ordering::Relaxed) {
            return;
        }
        match self.way() {
            Way::Polling => tracing::warn!("wake-ups: {POLLING}"),
            way => tracing::info!("wake-ups: {}", way.words()),
        }
    }
}

/// How wake-ups from other processes come here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// LISTEN, on a connection like all the others.
    SameUrl,
    /// LISTEN, on a connection by a URL of its own.
    OwnUrl,
    /// Not at all.
    Polling,
}

/// What polling means, and what to do about it.
const POLLING: &str = "the connection leads through a pooler, so LISTEN is not used and work from other processes is \
    found by polling, up to 4 s late; add ?listen=postgres://… with a direct URL, or send wake-ups through Redis";

impl Way {
    fn words(self) -> &'static str {
        match self {
            Self::SameUrl => "LISTEN/NOTIFY, on one connection per process",
            Self::OwnUrl => "LISTEN/NOTIFY, on one connection per process by the URL in `listen`",
            Self::Polling => POLLING,
        }
    }
}

impl Herald {
    pub(crate) fn start(pool: Arc<Pool>, listen: Option<Opener>) -> Self {
        let desk = Desk {
            pool,
            listen,
            said: AtomicBool::new(false),
            satchel: Pending::default(),
            listeners: Subscribers::default(),
            wanted: AtomicBool::new(false),
            begin: Notify::new(),
        };
        let desk = Arc::new(desk);
        let work = tokio::spawn(Rider { desk: desk.clone(), line: None }.run());
        Self { desk, work }
    }

    /// Whether the URL for LISTEN leads to the database of the store.
    async fn check_url(&self, opener: &Opener) -> Result<Finding, Error> {
        let pool = &self.desk.pool;
        let mut there = opener.open(&ServerClock::new(), Box::new(|_| {})).await?;
        let asked = there.query(pool.call(&IDENTITY)?, &[]);
        let there_is = asked.await.map_err(|error| classify("the URL in `listen`", error))?;
        let here_is = pool.query(&IDENTITY, &[]).await?;
        let identity = |rows: &[Row]| rows.first().map(|row| row.get::<_, String>("identity"));
        let finding = |severity, found: &str| Ok(Finding::new(severity, "wake-ups", found));
        if identity(&there_is) != identity(&here_is) {
            return finding(Severity::Bad, "the URL in `listen` leads to another database");
        }
        match there.is_pooled {
            true => finding(
                Severity::Warning,
                "the URL in `listen` leads through a pooler: it works in session mode only",
            ),
            false => finding(Severity::Good, Way::OwnUrl.words()),
        }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl fmt::Debug for Herald {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LISTEN/NOTIFY")
    }
}

#[async_trait]
impl Transport for Herald {
    fn publish(&self, wake: Wake) -> SendTiming {
        self.desk.satchel.add(wake)
    }

    async fn flush(&self) {
        let _ = timeout(PATIENCE, self.desk.satchel.flushed()).await;
    }

    fn subscribe(&self, _: Subject) -> MessageStream {
        let listener = self.desk.listeners.subscribe();
        if !self.desk.wanted.swap(true, Ordering::SeqCst) {
            self.desk.begin.notify_one();
        }
        Box::pin(listener)
    }

    /// Everybody hears the whole count; the database decides who is too late.
    async fn take_hint(&self, _: &Hint) -> bool {
        true
    }

    async fn checkup(&self) -> Vec<Finding> {
        if let Some(opener) = &self.desk.listen {
            let bad = |error: Error| Finding::new(Severity::Bad, "wake-ups", error.full_message());
            return vec![self.check_url(opener).await.unwrap_or_else(bad)];
        }
        let way = self.desk.way();
        let severity = if way == Way::Polling { Severity::Warning } else { Severity::Good };
        vec![Finding::new(severity, "wake-ups", way.words())]
    }
}

/// Does the herald's errands.
struct Rider {
    desk: Arc<Desk>,
    line: Option<Line>,
}

struct Line {
    connection: Connection,
    hearing: Hearing,
}

/// Whether a line brings wake-ups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hearing {
    NotYet,
    Yes,
    /// It leads through a pooler. LISTEN would be left to whoever comes next.
    Never,
}

impl Rider {
    /// Runs until the herald is dropped.
    async fn run(mut self) {
        loop {
            let errand = self.next_errand().await;
            match in_time("a wake-up", self.ride(errand.as_ref())).await {
                Ok(()) => {
                    errand.iter().for_each(|errand| self.desk.satchel.sent(errand));
                    sleep(REST).await;
                }
                Err(error) => {
                    tracing::debug!(error = error.full_message(), "wake-ups are delayed");
                    errand.iter().for_each(|errand| self.desk.satchel.failed(errand));
                    self.line = None;
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Waits for something to tell, or for a reason to begin to listen.
    async fn next_errand(&mut self) -> Option<WakeBatch> {
        loop {
            if self.is_deaf() {
                return None;
            }
            let cut = async {
                match &mut self.line {
                    Some(line) => drop((&mut line.connection.driver).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                errand = self.desk.satchel.next_batch(sleep(BUSY)) => return Some(errand),
                () = self.desk.begin.notified() => {}
                () = cut => self.line = None,
            }
        }
    }

    fn is_deaf(&self) -> bool {
        let is_settled = self.line.as_ref().is_some_and(|line| line.hearing != Hearing::NotYet);
        self.desk.wanted.load(Ordering::SeqCst) && !is_settled
    }

    async fn ride(&mut self, errand: Option<&WakeBatch>) -> Result<(), Error> {
        let deaf = self.is_deaf();
        let line = match &mut self.line {
            Some(line) if !line.connection.client.is_closed() => line,
            line => line.insert(open(&self.desk).await?),
        };
        if deaf {
            line.listen(&self.desk).await?;
        }
        match errand {
            Some(errand) => line.notify(&self.desk.pool, errand).await,
            None => Ok(()),
        }
    }
}

/// Opens a line. What this process itself has said is not passed on: it was heard here before it was sent.
async fn open(desk: &Arc<Desk>) -> Result<Line, Error> {
    let own = Arc::new(AtomicI32::new(0));
    let (hearing, own_id) = (desk.clone(), own.clone());
    let heard = move |notification: tokio_postgres::Notification| {
        if notification.process_id() != own_id.load(Ordering::Relaxed) {
            let wake: Wake = notification.payload().parse().unwrap_or(Wake::Everything);
            hearing.listeners.publish(&wake.into());
        }
    };
    let connection = desk.opener().open(&desk.pool.clock, Box::new(heard)).await?;
    desk.pool.count_one();
    own.store(connection.process, Ordering::Relaxed);
    Ok(Line { connection, hearing: Hearing::NotYet })
}

impl Line {
    /// Begins to listen. Whatever was said before was missed.
    async fn listen(&mut self, desk: &Desk) -> Result<(), Error> {
        desk.say_way();
        if desk.way() == Way::Polling {
            self.hearing = Hearing::Never;
            return Ok(());
        }
        desk.pool.count_one();
        let listen = format!("LISTEN \"{}\"", channel(&desk.pool));
        self.connection.client.batch_execute(&listen).await.map_err(|error| classify("LISTEN", error))?;
        self.hearing = Hearing::Yes;
        desk.listeners.publish(&Wake::Everything.into());
        Ok(())
    }

    async fn notify(&mut self, pool: &Pool, errand: &WakeBatch) -> Result<(), Error> {
        pool.count_one();
        let payloads: Vec<String> = errand.wakes.iter().map(Wake::to_string).collect();
        let answer = self.connection.query(pool.call(&NOTIFY)?, &[&channel(pool), &payloads]).await;
        answer.map(drop).map_err(|error| classify("NOTIFY", error))
    }
}

/// Two stores in one database do not wake each other.
pub(crate) fn channel(pool: &Pool) -> String {
    format!("{}_wake", pool.opener.schema)
}
