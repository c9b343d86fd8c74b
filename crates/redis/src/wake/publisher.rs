//! Publishing: what was told within a millisecond goes out in one trip.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tidemill_core::wake::Hint;
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Queue};
use tokio::time::sleep;

use super::channel::{Channel, announce};
use super::transport::Office;
use crate::connection::reply::int;
use crate::error::{classify, odd_answer};
use crate::options::Queuert;

/// The rest after each errand.
const REST: Duration = Duration::from_millis(1);

/// How long after an errand whoever makes work does not wait for the next: about what making a job costs.
const BUSY: Duration = Duration::from_millis(5);

/// The rest after a failure.
const RETRY: Duration = Duration::from_millis(400);

const PUBLISH: &str = include_str!("../../lua/wake/publish.lua");
const COUNT: &str = include_str!("../../lua/wake/count.lua");
const TAKE: &str = include_str!("../../lua/wake/take.lua");

/// Carries until the courier is dropped.
pub(super) async fn run(office: Arc<Office>) {
    loop {
        let errand = office.satchel.next_batch(sleep(BUSY)).await;
        let commands = errand.wakes.iter().flat_map(|wake| office.commands(wake)).collect();
        match office.commands.send_all(commands).await {
            Ok(()) => {
                office.satchel.sent(&errand);
                office.outage.is_over();
                sleep(REST).await;
            }
            Err(error) => {
                office.outage.begins(&classify("telling other processes", error));
                office.satchel.failed(&errand);
                sleep(RETRY.mul_f64(0.5 + fastrand::f64())).await;
            }
        }
    }
}

impl Office {
    /// How a wake-up is told.
    fn commands(&self, wake: &Wake) -> Vec<Cmd> {
        match wake {
            Wake::Queue { queue, jobs } if *jobs < usize::MAX => self.announce(queue, *jobs),
            Wake::Finished(id) => vec![self.publish(Channel::Chainc, id.as_str())],
            Wake::LeaseLost(id) => vec![self.publish(Channel::Owls, id.as_str())],
            other => vec![self.publish(Channel::Wake, &other.to_string())],
        }
    }

    fn publish(&self, channel: Channel, message: &str) -> Cmd {
        redis::cmd("PUBLISH").arg(channel.name(&self.keys)).arg(message).take()
    }

    /// Announces jobs with a hint of their own, and for programs that know no such hint by their type alone. The hint of
    /// the type is counted before anybody hears of it; the messages leave from one server, so that their order stays.
    fn announce(&self, queue: &Queue, jobs: usize) -> Vec<Cmd> {
        let (type_name, ttl) = (queue.name.as_str(), self.options.hint_ttl.as_secs());
        let (hint, plain) = match self.options.queuert {
            Queuert::Hinted => (Hint::generate(), ""),
            Queuert::Both => (Hint::generate_with_twin(), type_name),
        };
        self.own.note(hint);
        let mut publish = eval(PUBLISH, &self.keys.hint(&hint));
        publish.arg(jobs).arg(self.keys.sched()).arg(announce(&hint, type_name)).arg(ttl).arg(plain);
        if plain.is_empty() {
            return vec![publish];
        }
        let mut count = eval(COUNT, &self.keys.type_hint(type_name));
        count.arg(jobs).arg(ttl);
        vec![count, publish]
    }

    /// Takes a share of a hint.
    pub(super) async fn take(&self, hint: &Hint) -> Result<bool, Error> {
        let mut command = eval(TAKE, &self.keys.hint(hint));
        command.arg(self.options.hint_ttl.as_secs());
        let answer = self.commands.send(&command).await.map_err(|error| classify("a hint", error))?;
        int(&answer).map(|taken| taken == 1).ok_or_else(|| odd_answer("a hint"))
    }
}

/// By its text and not by its hash: it is short without its comment, and no server ever has to be taught it.
fn eval(script: &str, key: &str) -> Cmd {
    let code: Vec<&str> = script.lines().filter(|line| !line.starts_with("--")).collect();
    redis::cmd("EVAL").arg(code.join("\n")).arg(1).arg(key).take()
}
