//! LISTEN and NOTIFY on one connection of its own, opened when it is first needed and reopened when it is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::store::Wake;
use tokio::time::sleep;

use crate::Inner;
use crate::connection::Connection;
use crate::error::classify;
use crate::pool::in_time;
use crate::sql::NOTIFY;

/// The rest after each errand: what is announced meanwhile goes out together, so a process sends at most two
/// hundred notifications a second however many jobs it makes.
const REST: Duration = Duration::from_millis(5);

/// The rest after a failure.
const RETRY: Duration = Duration::from_millis(400);

/// Carries wake-ups between this process and the others.
pub(crate) struct Herald {
    inner: Arc<Inner>,
    line: Option<Line>,
}

struct Line {
    connection: Connection,
    listening: bool,
}

impl Herald {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, line: None }
    }

    /// Runs until its store is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            self.wait_for_an_errand().await;
            match in_time("a wake-up", self.errand()).await {
                Ok(()) => sleep(REST).await,
                Err(error) => {
                    tracing::debug!(error = error.chain(), "wake-ups are delayed");
                    self.line = None;
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn wait_for_an_errand(&mut self) {
        while !self.has_an_errand() {
            let cut = async {
                match &mut self.line {
                    Some(line) => drop((&mut line.connection.driver).await),
                    None => std::future::pending().await,
                }
            };
            let was_cut = tokio::select! {
                () = self.inner.hub.posted.notified() => false,
                () = cut => true,
            };
            if was_cut {
                self.line = None;
            }
        }
        self.inner.hub.board().resting = false;
    }

    fn has_an_errand(&self) -> bool {
        let mut board = self.inner.hub.board();
        let deaf = board.listening && !self.line.as_ref().is_some_and(|line| line.listening);
        board.resting = true;
        deaf || !board.news.is_empty()
    }

    async fn errand(&mut self) -> Result<(), Error> {
        let hub = &self.inner.hub;
        let listening = hub.board().listening;
        let line = match &mut self.line {
            Some(line) if !line.connection.client.is_closed() => line,
            line => line.insert(open(&self.inner).await?),
        };
        if listening && !line.listening {
            line.listen(&self.inner).await?;
        }
        let (payloads, posting) = {
            let mut board = hub.board();
            (board.news.take().iter().map(Wake::to_string).collect(), board.postings)
        };
        if let Err(error) = line.notify(&self.inner, payloads).await {
            hub.board().news.add(Wake::Everything);
            return Err(error);
        }
        hub.tell(posting);
        Ok(())
    }
}

/// Opens a line. What this process itself has said is not passed on: it was heard here before it was sent.
async fn open(inner: &Arc<Inner>) -> Result<Line, Error> {
    let own = Arc::new(AtomicI32::new(0));
    let (hub, own_id) = (inner.hub.clone(), own.clone());
    let heard = move |notification: tokio_postgres::Notification| {
        if notification.process_id() != own_id.load(Ordering::Relaxed) {
            hub.heard(notification.payload().parse().unwrap_or(Wake::Everything));
        }
    };
    let connection = inner.pool.opener.open(&inner.pool.clock, Box::new(heard)).await?;
    inner.pool.count_one();
    // A hint need not survive a crash, so its commit need not wait for the disk.
    let setup = "SET synchronous_commit = off; SELECT pg_backend_pid()::text AS id";
    let rows = connection.client.simple_query(setup).await.map_err(|error| classify("a wake-up", error))?;
    let id = rows.iter().find_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get("id")?.parse().ok(),
        _ => None,
    });
    own.store(id.unwrap_or_default(), Ordering::Relaxed);
    Ok(Line { connection, listening: false })
}

impl Line {
    /// Begins to listen. Whatever was said before was missed.
    async fn listen(&mut self, inner: &Inner) -> Result<(), Error> {
        inner.pool.count_one();
        let listen = format!("LISTEN \"{}\"", channel(inner));
        self.connection.client.batch_execute(&listen).await.map_err(|error| classify("LISTEN", error))?;
        self.listening = true;
        inner.hub.heard(Wake::Everything);
        Ok(())
    }

    async fn notify(&mut self, inner: &Inner, payloads: Vec<String>) -> Result<(), Error> {
        if payloads.is_empty() {
            return Ok(());
        }
        inner.pool.count_one();
        let answer = self.connection.query(&NOTIFY, &[&channel(inner), &payloads]).await;
        answer.map(drop).map_err(|error| classify("NOTIFY", error))
    }
}

/// Two stores in one database do not wake each other.
fn channel(inner: &Inner) -> String {
    format!("{}_wake", inner.pool.opener.schema)
}
