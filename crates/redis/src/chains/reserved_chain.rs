//! The stored data of a chain whose key is reserved, so that any process can create it.

use std::time::Duration;

use bytes::Bytes;
use tidemill_core::chain::{Dedup, JobLinks};
use tidemill_core::store::{Due, NewJob};
use tidemill_core::{JobId, Queue, QueueName, Timestamp};

use crate::jobs::due_argument;

/// Encodes a chain: `RECEIPT QUEUE DUE COUNT CHAIN… ENVELOPE`. Names have no spaces.
pub(super) fn write(queue: &Queue, job: &NewJob, receipt: &str) -> Vec<u8> {
    let mut text = format!("{receipt} {} {} {} ", queue.name, due_argument(job.due), job.links.after.len());
    for chain in &job.links.after {
        text.push_str(chain.as_str());
        text.push(' ');
    }
    let mut stored = text.into_bytes();
    stored.extend_from_slice(&job.envelope);
    stored
}

/// Decodes the job, its queue, and the name of its receipt.
pub(super) fn read(chain: &JobId, key: &str, stored: Bytes) -> Option<(Queue, NewJob, String)> {
    let mut read = 0;
    let mut word = || {
        let end = read + stored[read..].iter().position(|&byte| byte == b' ')?;
        let word = std::str::from_utf8(&stored[read..end]).ok()?;
        read = end + 1;
        Some(word)
    };
    let receipt = word()?.to_owned();
    let queue = Queue::at_least_once(QueueName::new(word()?).ok()?);
    let due = read_due(word()?)?;
    let count = word()?.parse().ok()?;
    let after = (0..count).map(|_| JobId::new(word()?).ok()).collect::<Option<_>>()?;
    let links = JobLinks { after, dedup: Some(Dedup::open(key)) };
    let envelope = stored.slice(read..);
    let job = NewJob { id: chain.clone(), envelope, due, tracked: true, generated_id: true, links };
    Some((queue, job, receipt))
}

/// The inverse of `due_argument`.
fn read_due(text: &str) -> Option<Due> {
    match text.strip_prefix('+') {
        _ if text.is_empty() => Some(Due::Now),
        Some(delay) => Some(Due::In(Duration::from_millis(delay.parse().ok()?))),
        None => Some(Due::At(Timestamp(text.parse().ok()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_can_be_made_from_its_recipe() {
        let queue = Queue::at_least_once(QueueName::new("mail").unwrap());
        let id = JobId::new("c").unwrap();
        let after = vec![JobId::new("a").unwrap(), JobId::new("b").unwrap()];
        for due in [Due::Now, Due::In(Duration::from_millis(5)), Due::At(Timestamp(-7))] {
            let links = JobLinks { after: after.clone(), dedup: Some(Dedup::open("k")) };
            let envelope = Bytes::from_static(b"{\"job_id\": \"c\"}");
            let job = NewJob { id: id.clone(), envelope, due, tracked: true, generated_id: true, links };
            let stored = write(&queue, &job, "r").into();
            let (read_queue, read, receipt) = read(&id, "k", stored).unwrap();
            assert_eq!(receipt, "r");
            assert_eq!((read_queue, read.due, read.envelope), (queue.clone(), due, job.envelope));
            assert_eq!(read.links.after, after);
        }
    }
}
