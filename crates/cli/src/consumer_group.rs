//! Flags for the consumer groups of Redis queues.

use std::str::FromStr;

use tidemill::QueueName;
use tidemill::name::InvalidName;

/// The consumer group of one queue, or of every queue without a rule of its own: `[QUEUE=]GROUP`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupRule {
    pub(crate) queue: Option<QueueName>,
    pub(crate) group: String,
}

/// The error of an invalid rule.
#[derive(Debug)]
pub(crate) struct InvalidGroup(String);

impl std::fmt::Display for InvalidGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidGroup {}

impl From<InvalidName> for InvalidGroup {
    fn from(error: InvalidName) -> Self {
        Self(error.to_string())
    }
}

impl FromStr for GroupRule {
    type Err = InvalidGroup;
    fn from_str(text: &str) -> Result<Self, InvalidGroup> {
        let (queue, group) = match text.split_once('=') {
            Some((queue, group)) => (Some(QueueName::new(queue)?), group),
            None => (None, text),
        };
        if group.is_empty() || !group.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidGroup(format!(
                "group {group:?} is not valid: printable ASCII without spaces"
            )));
        }
        Ok(Self { queue, group: group.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_for_one_queue_or_for_all() {
        let rule: GroupRule = "jobs.browser=browser-workers".parse().unwrap();
        assert_eq!(rule.queue, QueueName::new("jobs.browser").ok());
        assert_eq!("aiki-workers".parse::<GroupRule>().unwrap().queue, None);
        assert!("a b=x".parse::<GroupRule>().is_err() && "q=".parse::<GroupRule>().is_err());
    }
}
