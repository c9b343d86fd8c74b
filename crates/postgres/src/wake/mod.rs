//! Wake-ups through LISTEN and NOTIFY.

mod commit_notify;
mod notify;
mod notify_task;

pub(crate) use commit_notify::{CommitNotify, CommitNotifyPermit};
pub(crate) use notify::{NotifyTransport, channel};
