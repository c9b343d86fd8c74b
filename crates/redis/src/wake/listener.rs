//! Wake-ups over one subscription per process, started when someone first listens.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use tidemill_core::Queue;
use tidemill_core::wake::{Wake, WakeStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use crate::connection::{Link, Subscriptions};

/// A listener this far behind is told to look at everything instead.
const BACKLOG: usize = 1_024;

/// How long to wait before subscribing again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Shares one subscription among all listeners of the process.
#[derive(Debug)]
pub(crate) struct Waker {
    link: Arc<Link>,
    channel: String,
    sender: broadcast::Sender<Wake>,
    task: OnceLock<Task>,
}

/// Ends with its owner.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Waker {
    pub(crate) fn new(link: Arc<Link>, channel: String) -> Self {
        Self { link, channel, sender: broadcast::Sender::new(BACKLOG), task: OnceLock::new() }
    }

    /// Completes when `queue` was paused, resumed, or may have been.
    pub(crate) async fn news_of(&self, queue: &Queue) {
        let mut wakes = self.listen();
        while let Some(wake) = wakes.next().await {
            if matches!(&wake, Wake::Queue { queue: other, .. } if other == queue) {
                return;
            }
        }
        std::future::pending().await
    }

    pub(crate) fn listen(&self) -> WakeStream {
        let receiver = self.sender.subscribe();
        self.task.get_or_init(|| {
            let (link, channel, sender) = (self.link.clone(), self.channel.clone(), self.sender.clone());
            Task(tokio::spawn(subscribe(link, channel, sender)))
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

/// Keeps the subscription alive. After every gap listeners are told to look at everything.
async fn subscribe(link: Arc<Link>, channel: String, sender: broadcast::Sender<Wake>) {
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let Err(error) = messages(&link, &channel, &sender).await;
        tracing::debug!(%error, "no subscription to wake-ups");
        // A subscription that has worked for a while ends a series of failures.
        if begun.elapsed() > PAUSES[PAUSES.len() - 1] {
            failures = 0;
        }
        let pause = PAUSES[usize::min(failures, PAUSES.len() - 1)];
        failures += 1;
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
    }
}

/// Passes messages on until the connection ends. In a Cluster every server hears every message.
async fn messages(
    link: &Link,
    channel: &str,
    sender: &broadcast::Sender<Wake>,
) -> Result<Infallible, redis::RedisError> {
    let nodes = link.nodes();
    let node = &nodes[fastrand::usize(..nodes.len())];
    let mut subscription = Subscriptions::open(node).await?;
    subscription.subscribe(channel.to_owned()).await?;
    link.count(1);
    let _ = sender.send(Wake::Everything);
    loop {
        let message = subscription.next().await?;
        let Ok(text) = message.get_payload::<String>() else { continue };
        // A script that has much to say says it in one message. What is no wake-up of ours is ignored: anyone may
        // publish.
        for wake in text.lines().filter_map(|line| line.parse().ok()) {
            let _ = sender.send(wake);
        }
    }
}
