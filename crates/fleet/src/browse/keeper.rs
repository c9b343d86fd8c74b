//! Keeps the sessions of a worker's jobs, gives back those that are over, and hears what happens to them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidemill_core::Error;
use tidemill_core::store::fleet::Attached;
use tidemill_core::wake::Wake;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::browsers::Browsers;
use super::desk::Desk;
use crate::terms::{self, AGAIN, HEARD};

/// How often to try to give back what is left when the worker ends; what stays runs out by itself.
const LAST_TRIES: usize = 3;

/// How soon the store is asked when a wake-up has named a session; several are asked about together.
const RECHECK: Duration = Duration::from_millis(20);

/// Does for all jobs of a worker at once what each would do by itself.
pub(super) struct Keeper {
    desk: Arc<Desk>,
}

impl Keeper {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }

    pub(super) async fn run(self, end: CancellationToken) {
        let mut wakes = self.desk.store.subscribe();
        let (mut next, mut is_hurried) = (self.sleep(self.period()), false);
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                // What cannot be given back now is tried again with the next round.
                () = self.desk.returned.notified() => drop(self.give_back().await),
                () = &mut next => (next, is_hurried) = (self.sleep(self.tend().await), false),
                wake = wakes.next() => match wake {
                    Some(wake) if self.hear(&wake) && !is_hurried => {
                        (next, is_hurried) = (Box::pin(tokio::time::sleep(RECHECK)), true);
                    }
                    Some(_) => {}
                    None => {
                        tokio::time::sleep(AGAIN).await;
                        wakes = self.desk.store.subscribe();
                    }
                },
            }
        }
        self.give_back_the_last().await;
    }

    fn sleep(&self, pause: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.desk.store.clock().sleep(pause)
    }

    fn period(&self) -> Duration {
        terms::period(self.desk.browsers.lease.time)
    }

    /// Passes a wake-up on; says whether the store is to be asked about a session. One whose end was missed is found with
    /// the next round, which nothing here puts off: a store that shares its file with busy writers says all the time that
    /// something may have been missed.
    fn hear(&self, wake: &Wake) -> bool {
        match wake {
            Wake::Capacity(kind) if *kind == Browsers::kind() => self.desk.places.notify_waiters(),
            Wake::Everything => self.desk.places.notify_waiters(),
            Wake::Session(session) => return self.desk.doubt(session),
            _ => {}
        }
        false
    }

    /// Says what is held and gives back what is over; how long until the next time.
    async fn tend(&self) -> Duration {
        let failed = self.give_back().await;
        match self.attach().await {
            Ok(()) if !failed => self.period(),
            Ok(()) => AGAIN,
            Err(error) => {
                warn!("sessions could not be kept, trying again: {}", error.full_message());
                AGAIN
            }
        }
    }

    async fn attach(&self) -> Result<(), Error> {
        let held = self.desk.held();
        if held.is_empty() {
            return Ok(());
        }
        let Ok(answers) = timeout(HEARD, self.desk.store.fleet().attach(&held)).await else {
            return Err(Error::Unavailable { message: "attaching was not answered".into(), source: None });
        };
        for (attach, answer) in held.iter().zip(answers?) {
            if answer == Attached::Held {
                self.desk.is_known(&attach.session);
                continue;
            }
            debug!(session = %attach.session, ?answer, "a job's browser is taken away");
            self.desk.lose(&attach.session);
        }
        Ok(())
    }

    /// Whether something could not be given back.
    async fn give_back(&self) -> bool {
        let over = self.desk.over();
        if over.is_empty() {
            return false;
        }
        let released = timeout(HEARD, self.desk.store.fleet().release(&over)).await;
        let failed = !matches!(released, Ok(Ok(_)));
        if failed {
            self.desk.not_over(over);
        }
        failed
    }

    async fn give_back_the_last(&self) {
        for _ in 0..LAST_TRIES {
            if !self.give_back().await {
                return;
            }
            tokio::time::sleep(AGAIN / 4).await;
        }
    }
}
