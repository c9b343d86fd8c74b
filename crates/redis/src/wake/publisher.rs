//! Publishing: wake-ups of one millisecond are sent in one round trip.

use std::time::Duration;

use redis::Cmd;
use tidemill_core::wake::{Pending, Wake};
use tidemill_core::{Error, Queue};
use tokio::time::sleep;

use super::channel::{Channel, hinted_message};
use super::hint::Hint;
use super::transport::TransportState;
use crate::connection::reply::int;
use crate::error::{classify, unexpected_reply};
use crate::options::QueuertFormat;

/// The pause after each batch.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(1);

/// For how long after a batch enqueues do not wait for the next: about the cost of an enqueue.
const BUSY_WINDOW: Duration = Duration::from_millis(5);

/// The pause after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(400);

const PUBLISH: &str = include_str!("../../lua/wake/publish.lua");
const COUNT: &str = include_str!("../../lua/wake/count.lua");
const TAKE: &str = include_str!("../../lua/wake/take.lua");

/// Publishes the outgoing wake-ups. Runs until it is dropped.
pub(super) async fn run(state: &TransportState, outgoing: &Pending) {
    loop {
        let batch = outgoing.next_batch(sleep(BUSY_WINDOW)).await;
        let commands = batch.wakes.iter().flat_map(|wake| state.wake_commands(wake)).collect();
        match state.commands.send_all(commands).await {
            Ok(()) => {
                outgoing.sent(&batch);
                state.outage.record_success();
                sleep(PUBLISH_INTERVAL).await;
            }
            Err(error) => {
                state.outage.record_failure(&classify("publishing wake-ups", error));
                outgoing.failed(&batch);
                sleep(RETRY_DELAY.mul_f64(0.5 + fastrand::f64())).await;
            }
        }
    }
}

impl TransportState {
    /// The commands that publish a wake-up.
    fn wake_commands(&self, wake: &Wake) -> Vec<Cmd> {
        match wake {
            Wake::Queue { queue, jobs } if *jobs < usize::MAX => self.announce_commands(queue, *jobs),
            Wake::Finished(id) => vec![self.publish(Channel::Chainc, id.as_str())],
            Wake::LeaseLost(id) => vec![self.publish(Channel::Owls, id.as_str())],
            other => vec![self.publish(Channel::Wake, &other.to_string())],
        }
    }

    fn publish(&self, channel: Channel, message: &str) -> Cmd {
        redis::cmd("PUBLISH").arg(channel.name(&self.keys)).arg(message).take()
    }

    /// Announces jobs with their own hint and, for programs without such hints, by their type
    /// alone. The type's hint is counted before the announcement. One server sends both messages,
    /// in this order.
    fn announce_commands(&self, queue: &Queue, jobs: usize) -> Vec<Cmd> {
        let (type_name, ttl) = (queue.name.as_str(), self.options.hint_ttl.as_secs());
        let (hint, plain) = match self.options.queuert {
            QueuertFormat::Hinted => (Hint::generate(), ""),
            QueuertFormat::Both => (Hint::generate_with_twin(), type_name),
        };
        self.own_hints.add(hint);
        let mut publish = eval(PUBLISH, &self.keys.hint(&hint));
        publish.arg(jobs).arg(self.keys.sched()).arg(hinted_message(&hint, type_name)).arg(ttl).arg(plain);
        if plain.is_empty() {
            return vec![publish];
        }
        let mut count = eval(COUNT, &self.keys.type_hint(type_name));
        count.arg(jobs).arg(ttl);
        vec![count, publish]
    }

    /// Takes a share of a hint.
    pub(super) async fn take_share(&self, hint: &Hint) -> Result<bool, Error> {
        let mut command = eval(TAKE, &self.keys.hint(hint));
        command.arg(self.options.hint_ttl.as_secs());
        let reply = self.commands.send(&command).await.map_err(|error| classify("a hint", error))?;
        int(&reply).map(|taken| taken == 1).ok_or_else(|| unexpected_reply("a hint"))
    }
}

/// Sent as text instead of by hash: it is short without its comment, and needs no loading.
fn eval(script: &str, key: &str) -> Cmd {
    let code: Vec<&str> = script.lines().filter(|line| !line.starts_with("--")).collect();
    redis::cmd("EVAL").arg(code.join("\n")).arg(1).arg(key).take()
}
