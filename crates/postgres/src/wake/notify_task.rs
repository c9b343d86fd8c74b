//! The task of the LISTEN/NOTIFY transport. It has a connection of its own, which is opened when it
//! is first needed and reopened when it is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::wake::{Wake, WakeBatch};
use tokio::time::sleep;

use super::notify::{ListenMode, NotifyState, channel};
use crate::connection::{Connection, Pool, with_timeout};
use crate::error::classify;
use crate::sql::NOTIFY;

/// The pause after each batch. Wake-ups that arrive meanwhile are sent together, so there is at
/// most one notification per queue and millisecond, however many jobs are enqueued.
const MIN_SEND_INTERVAL: Duration = Duration::from_millis(1);

/// How long after a batch a publisher does not wait for the next batch: about the cost of an
/// enqueue.
const BUSY_WINDOW: Duration = Duration::from_millis(5);

/// The pause after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(400);

/// The task that sends and receives notifications.
pub(super) struct NotifyTask {
    pub(super) state: Arc<NotifyState>,
    pub(super) connection: Option<NotifyConnection>,
}

pub(super) struct NotifyConnection {
    connection: Connection,
    listening: ListenStatus,
}

/// Whether a connection receives wake-ups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListenStatus {
    NotYet,
    Yes,
    /// It goes through a pooler. LISTEN would be left for other clients.
    Never,
}

impl NotifyTask {
    /// Runs until the transport is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let batch = self.next_batch().await;
            match with_timeout("a wake-up", self.send(batch.as_ref())).await {
                Ok(()) => {
                    batch.iter().for_each(|batch| self.state.pending.sent(batch));
                    sleep(MIN_SEND_INTERVAL).await;
                }
                Err(error) => {
                    tracing::debug!(error = error.full_message(), "wake-ups are delayed");
                    batch.iter().for_each(|batch| self.state.pending.failed(batch));
                    self.connection = None;
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Waits for a batch to send, or for the first subscriber.
    async fn next_batch(&mut self) -> Option<WakeBatch> {
        loop {
            if self.must_listen() {
                return None;
            }
            let cut = async {
                match &mut self.connection {
                    Some(connection) => drop((&mut connection.connection.driver).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                batch = self.state.pending.next_batch(sleep(BUSY_WINDOW)) => return Some(batch),
                () = self.state.subscribed.notified() => {}
                () = cut => self.connection = None,
            }
        }
    }

    /// Whether there are subscribers, and LISTEN has not been decided on for this connection.
    fn must_listen(&self) -> bool {
        let is_decided =
            self.connection.as_ref().is_some_and(|connection| connection.listening != ListenStatus::NotYet);
        self.state.has_subscribers.load(Ordering::SeqCst) && !is_decided
    }

    async fn send(&mut self, batch: Option<&WakeBatch>) -> Result<(), Error> {
        let must_listen = self.must_listen();
        let connection = match &mut self.connection {
            Some(connection) if !connection.connection.client.is_closed() => connection,
            connection => connection.insert(open(&self.state).await?),
        };
        if must_listen {
            connection.listen(&self.state).await?;
        }
        match batch {
            Some(batch) => connection.notify(&self.state.pool, batch).await,
            None => Ok(()),
        }
    }
}

/// Opens a connection. Notifications of this process itself are dropped: they were dispatched
/// before they were sent.
async fn open(state: &Arc<NotifyState>) -> Result<NotifyConnection, Error> {
    let own_process = Arc::new(AtomicI32::new(0));
    let (receiver, receiver_process) = (state.clone(), own_process.clone());
    let on_notification = move |notification: tokio_postgres::Notification| {
        if notification.process_id() != receiver_process.load(Ordering::Relaxed) {
            let wake: Wake = notification.payload().parse().unwrap_or(Wake::Everything);
            receiver.listeners.publish(&wake.into());
        }
    };
    let connection = state.connector().open(&state.pool.clock, Box::new(on_notification)).await?;
    state.pool.count_one();
    own_process.store(connection.process, Ordering::Relaxed);
    Ok(NotifyConnection { connection, listening: ListenStatus::NotYet })
}

impl NotifyConnection {
    /// Starts to listen. Earlier notifications were missed, so all waiters are woken.
    async fn listen(&mut self, state: &NotifyState) -> Result<(), Error> {
        state.log_mode();
        if state.mode() == ListenMode::Polling {
            self.listening = ListenStatus::Never;
            return Ok(());
        }
        state.pool.count_one();
        let listen = format!("LISTEN \"{}\"", channel(&state.pool));
        self.connection.client.batch_execute(&listen).await.map_err(|error| classify("LISTEN", error))?;
        self.listening = ListenStatus::Yes;
        state.listeners.publish(&Wake::Everything.into());
        Ok(())
    }

    async fn notify(&mut self, pool: &Pool, batch: &WakeBatch) -> Result<(), Error> {
        pool.count_one();
        let payloads: Vec<String> = batch.wakes.iter().map(Wake::to_string).collect();
        let answer = self.connection.query(pool.call(&NOTIFY)?, &[&channel(pool), &payloads]).await;
        answer.map(drop).map_err(|error| classify("NOTIFY", error))
    }
}
