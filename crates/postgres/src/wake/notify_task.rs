//! The task of the LISTEN/NOTIFY transport. It has a connection of its own, which is opened when it
//! is first needed and reopened when it is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::wake::{Bus, Interest, Pending, Wake, WakeBatch};
use tokio::time::sleep;

use super::notify::{ListenMode, NotifyTransport, channel};
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
pub(super) struct NotifyTask<'a> {
    transport: &'a NotifyTransport,
    bus: Arc<Bus>,
    interest: Interest,
    connection: Option<NotifyConnection>,
}

struct NotifyConnection {
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

impl<'a> NotifyTask<'a> {
    pub(super) fn new(transport: &'a NotifyTransport, bus: Arc<Bus>) -> Self {
        let interest = bus.interest();
        Self { transport, bus, interest, connection: None }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let bus = self.bus.clone();
        let Some(outgoing) = bus.outgoing() else { return };
        loop {
            let batch = self.next_batch(outgoing).await;
            match with_timeout("a wake-up", self.send(batch.as_ref())).await {
                Ok(()) => {
                    batch.iter().for_each(|batch| outgoing.sent(batch));
                    sleep(MIN_SEND_INTERVAL).await;
                }
                Err(error) => {
                    tracing::debug!(error = error.full_message(), "wake-ups are delayed");
                    batch.iter().for_each(|batch| outgoing.failed(batch));
                    self.connection = None;
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Waits for a batch to send, or until this process wants to receive wake-ups.
    async fn next_batch(&mut self, outgoing: &Pending) -> Option<WakeBatch> {
        loop {
            let is_decided = self.is_listen_decided();
            if !is_decided && self.interest.is_any() {
                return None;
            }
            let cut = async {
                match &mut self.connection {
                    Some(connection) => drop((&mut connection.connection.driver).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                batch = outgoing.next_batch(sleep(BUSY_WINDOW)) => return Some(batch),
                // A connection that listens keeps listening, however the interest changes.
                () = self.interest.changed(), if !is_decided => {}
                () = cut => self.connection = None,
            }
        }
    }

    /// Whether LISTEN has been decided on for this connection.
    fn is_listen_decided(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.listening != ListenStatus::NotYet)
    }

    async fn send(&mut self, batch: Option<&WakeBatch>) -> Result<(), Error> {
        let must_listen = !self.is_listen_decided() && self.interest.is_any();
        let connection = match &mut self.connection {
            Some(connection) if !connection.connection.client.is_closed() => connection,
            connection => connection.insert(open(self.transport, &self.bus).await?),
        };
        if must_listen {
            connection.listen(self.transport, &self.bus).await?;
        }
        match batch {
            Some(batch) => connection.notify(&self.transport.pool, batch).await,
            None => Ok(()),
        }
    }
}

/// Opens a connection. Notifications of this process itself are dropped: they were dispatched
/// before they were sent.
async fn open(transport: &NotifyTransport, bus: &Arc<Bus>) -> Result<NotifyConnection, Error> {
    let own_process = Arc::new(AtomicI32::new(0));
    let (receiver, receiver_process) = (bus.clone(), own_process.clone());
    let on_notification = move |notification: tokio_postgres::Notification| {
        if notification.process_id() != receiver_process.load(Ordering::Relaxed) {
            receiver.dispatch(notification.payload().parse().unwrap_or(Wake::Everything));
        }
    };
    let pool = &transport.pool;
    let connection = transport.connector().open(&pool.clock, Box::new(on_notification)).await?;
    pool.count_one();
    own_process.store(connection.process, Ordering::Relaxed);
    Ok(NotifyConnection { connection, listening: ListenStatus::NotYet })
}

impl NotifyConnection {
    /// Starts to listen. Earlier notifications were missed, so all waiters are woken.
    async fn listen(&mut self, transport: &NotifyTransport, bus: &Bus) -> Result<(), Error> {
        transport.log_mode();
        if transport.mode() == ListenMode::Polling {
            self.listening = ListenStatus::Never;
            return Ok(());
        }
        transport.pool.count_one();
        let listen = format!("LISTEN \"{}\"", channel(&transport.pool));
        self.connection.client.batch_execute(&listen).await.map_err(|error| classify("LISTEN", error))?;
        self.listening = ListenStatus::Yes;
        bus.dispatch(Wake::Everything);
        Ok(())
    }

    async fn notify(&mut self, pool: &Pool, batch: &WakeBatch) -> Result<(), Error> {
        pool.count_one();
        let payloads: Vec<String> = batch.wakes.iter().map(Wake::to_string).collect();
        let answer = self.connection.query(&*pool.call(&NOTIFY)?, &[&channel(pool), &payloads]).await;
        answer.map(drop).map_err(|error| classify("NOTIFY", error))
    }
}
