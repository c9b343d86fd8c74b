//! Everybody in one process who announces, waits or listens at one store, and the way to other processes.

mod hearing;
mod listeners;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};

pub use listeners::{Listener, Listeners};

use crate::bell::{Bells, Pace};
use crate::clock::Clock;
use crate::courier::{Courier, Leaves, Tiding, Topic};
use crate::store::{Finding, Wake, Wakes};

/// How long nobody has to wait for work before the hub stops listening for it: a busy worker waits now and
/// then only, and should not subscribe each time.
const LINGER: Duration = Duration::from_secs(15);

/// Where everything in the process announces, waits and listens.
#[derive(Debug)]
pub struct Hub {
    bells: Bells,
    listeners: Listeners<Wake>,
    courier: Option<Arc<dyn Courier>>,
}

impl Hub {
    /// A hub whose news is carried by `courier`, if by anybody.
    pub fn new(pace: Pace, courier: Option<Arc<dyn Courier>>) -> Self {
        Self { bells: Bells::new(pace), listeners: Listeners::default(), courier }
    }

    /// Where claims wait.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Announces something here at once and elsewhere soon.
    pub fn announce(&self, wake: Wake) {
        self.post(wake);
    }

    /// Announces something, and waits until the others have been told if that is a matter of a moment.
    pub async fn announce_surely(&self, wake: Wake) {
        if self.post(wake) == Leaves::Now {
            self.flush().await;
        }
    }

    /// Waits until what was announced has left this process, but not for long.
    pub async fn flush(&self) {
        if let Some(courier) = &self.courier {
            courier.flush().await;
        }
    }

    fn post(&self, wake: Wake) -> Leaves {
        let called = self.pass_on(wake.clone());
        match (&self.courier, rest_of(wake, called)) {
            (Some(courier), Some(rest)) => courier.tell(rest),
            _ => Leaves::Soon,
        }
    }

    /// Passes on what happened, to this process only; says how many claims were called by it.
    pub fn pass_on(&self, wake: Wake) -> usize {
        let called = self.ring(&wake);
        self.listeners.tell(&wake);
        called
    }

    fn ring(&self, wake: &Wake) -> usize {
        match wake {
            Wake::Queue { queue, jobs } => self.bells.ring(queue, *jobs),
            // Somebody has to look to learn when.
            Wake::Sooner(queue) => self.bells.ring(queue, 1),
            Wake::Everything => self.bells.ring_everyone(),
            Wake::Cancel(_) | Wake::Lost(_) | Wake::Finished(_) => 0,
            Wake::Member(_) | Wake::Places(_) | Wake::Session(_) => 0,
        }
    }

    /// Listens from now on, to this process and the others.
    pub fn listen(&self) -> Wakes {
        let here = self.listeners.listen();
        let Some(courier) = self.courier.clone() else { return Box::pin(here) };
        let elsewhere = courier.listen(Topic::News).filter_map(move |tiding| {
            // Without the courier there would be no tidings, so whoever listens holds on to it.
            let _held = &courier;
            std::future::ready(match tiding {
                Tiding::Wake(wake) => Some(wake),
                Tiding::Scheduled(_) => None,
            })
        });
        Box::pin(stream::select(here, elsewhere))
    }

    /// Brings work from other processes to whoever waits for some. Runs for as long as there is a store.
    pub async fn serve(&self, clock: &dyn Clock) {
        let Some(courier) = &self.courier else { return };
        loop {
            self.bells.until_waited_for().await;
            let mut tidings = courier.listen(Topic::Work);
            // Nobody has listened until now.
            self.bells.ring_everyone();
            let mut deserted = Box::pin(self.until_deserted(clock));
            while let Either::Left((Some(tiding), _)) = select(tidings.next(), &mut deserted).await {
                self.hear(tiding, &**courier).await;
            }
        }
    }

    async fn until_deserted(&self, clock: &dyn Clock) {
        loop {
            self.bells.until_deserted().await;
            let waited_for = Box::pin(self.bells.until_waited_for());
            if let Either::Left(_) = select(clock.sleep(LINGER), waited_for).await {
                return;
            }
        }
    }

    /// What an operator should know about the way to other processes.
    pub async fn checkup(&self) -> Vec<Finding> {
        match &self.courier {
            Some(courier) => courier.checkup().await,
            None => Vec::new(),
        }
    }
}

/// What is left to tell the others when so many claims have been called here.
fn rest_of(wake: Wake, called: usize) -> Option<Wake> {
    match wake {
        Wake::Queue { jobs, .. } if jobs <= called => None,
        Wake::Queue { queue, jobs } if jobs < usize::MAX => Some(Wake::Queue { queue, jobs: jobs - called }),
        other => Some(other),
    }
}
