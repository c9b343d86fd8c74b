//! The store's wake-ups: one subscription per process, started for the first listener.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use tidemill_core::Queue;
use tidemill_core::wake::{Wake, WakeStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use crate::connection::{Connections, PubSubConnection};

/// A listener this far behind receives `Everything` instead.
const MAX_BACKLOG: usize = 1_024;

/// Delays before subscribing again.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Shares one subscription among all listeners of the process.
#[derive(Debug)]
pub(crate) struct WakeListener {
    connections: Arc<Connections>,
    channel: String,
    sender: broadcast::Sender<Wake>,
    task: OnceLock<AbortOnDrop>,
}

/// A task that is aborted with its owner.
#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WakeListener {
    pub(crate) fn new(connections: Arc<Connections>, channel: String) -> Self {
        Self { connections, channel, sender: broadcast::Sender::new(MAX_BACKLOG), task: OnceLock::new() }
    }

    /// Completes when `queue` was, or may have been, paused or resumed.
    pub(crate) async fn queue_changed(&self, queue: &Queue) {
        let mut wakes = self.subscribe();
        while let Some(wake) = wakes.next().await {
            if matches!(&wake, Wake::Queue { queue: other, .. } if other == queue) {
                return;
            }
        }
        std::future::pending().await
    }

    pub(crate) fn subscribe(&self) -> WakeStream {
        let receiver = self.sender.subscribe();
        self.task.get_or_init(|| {
            let (connections, channel, sender) =
                (self.connections.clone(), self.channel.clone(), self.sender.clone());
            AbortOnDrop(tokio::spawn(subscribe(connections, channel, sender)))
        });
        Box::pin(stream::unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Ok(wake) => Some((wake, receiver)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Wake::Everything, receiver)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        }))
    }
}

/// Keeps the subscription alive. After every gap, listeners receive `Everything`.
async fn subscribe(connections: Arc<Connections>, channel: String, sender: broadcast::Sender<Wake>) {
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let Err(error) = messages(&connections, &channel, &sender).await;
        tracing::debug!(%error, "no subscription to wake-ups");
        // A subscription that worked for a while ends a series of failures.
        if started.elapsed() > RETRY_DELAYS[RETRY_DELAYS.len() - 1] {
            failures = 0;
        }
        let delay = RETRY_DELAYS[usize::min(failures, RETRY_DELAYS.len() - 1)];
        failures += 1;
        tokio::time::sleep(delay.mul_f64(0.5 + fastrand::f64())).await;
    }
}

/// Forwards messages until the connection ends. In a Cluster every server delivers every message.
async fn messages(
    connections: &Connections,
    channel: &str,
    sender: &broadcast::Sender<Wake>,
) -> Result<Infallible, redis::RedisError> {
    let nodes = connections.nodes();
    let node = &nodes[fastrand::usize(..nodes.len())];
    let mut subscription = PubSubConnection::open(node).await?;
    subscription.subscribe(channel.to_owned()).await?;
    connections.count_commands(1);
    let _ = sender.send(Wake::Everything);
    loop {
        let message = subscription.next().await?;
        let Ok(text) = message.get_payload::<String>() else { continue };
        // A script publishes several wake-ups in one message. Invalid ones are ignored: any client
        // may publish.
        for wake in text.lines().filter_map(|line| line.parse().ok()) {
            let _ = sender.send(wake);
        }
    }
}
