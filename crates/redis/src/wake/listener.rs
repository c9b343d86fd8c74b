//! The store's wake-ups: one subscription per process. Scripts publish them, so the store's bus only
//! receives.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tidemill_core::Queue;
use tidemill_core::wake::{Bus, Wake};

use crate::connection::{Connections, PubSubConnection};

/// Delays before subscribing again.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// Subscribes when the first listener appears, and keeps the subscription alive from then on. After
/// every gap, listeners receive `Everything`.
pub(crate) async fn listen(connections: Arc<Connections>, channel: String, bus: Arc<Bus>) {
    let mut interest = bus.interest();
    while !interest.is_any() {
        interest.changed().await;
    }
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let Err(error) = receive(&connections, &channel, &bus).await;
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

/// Dispatches messages until the connection ends. In a Cluster every server delivers every message.
async fn receive(
    connections: &Connections,
    channel: &str,
    bus: &Bus,
) -> Result<Infallible, redis::RedisError> {
    let nodes = connections.nodes();
    let node = &nodes[fastrand::usize(..nodes.len())];
    let mut subscription = PubSubConnection::open(node).await?;
    subscription.subscribe(channel.to_owned()).await?;
    connections.count_commands(1);
    bus.dispatch(Wake::Everything);
    loop {
        let message = subscription.next().await?;
        let Ok(text) = message.get_payload::<String>() else { continue };
        // A script publishes several wake-ups in one message. Invalid ones are ignored: any client
        // may publish.
        for wake in text.lines().filter_map(|line| line.parse().ok()) {
            bus.dispatch(wake);
        }
    }
}

/// Completes when `queue` was, or may have been, paused or resumed.
pub(crate) async fn queue_changed(bus: &Arc<Bus>, queue: &Queue) {
    let mut wakes = bus.subscribe();
    while let Some(wake) = wakes.next().await {
        if matches!(&wake, Wake::Queue { queue: other, .. } if other == queue) {
            return;
        }
    }
    std::future::pending().await
}
