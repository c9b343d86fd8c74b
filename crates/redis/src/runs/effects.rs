//! How what a run does is written for scripts. `lua/run.lua` reads it.

use tidemill_core::Timestamp;
use tidemill_core::store::runs::{Close, Commit, Delivery, Effect, EntryKind, MAX_SEEN, Then};
use tidemill_core::workflow::Topic;

use crate::inspect::record;
use crate::jobs::{OVERHEAD, due, ms};
use crate::keys::letter;
use crate::link::Call;

pub(super) fn push_commit(call: &mut Call<'_>, commit: &Commit) {
    call.push(commit.run.as_str());
    call.push(commit.cursor);
    call.push(commit.upto);
    call.push(&commit.entry[..]);
    push_effects(call, &commit.effects);
    match &commit.then {
        Then::GoesOn => call.push("goes_on"),
        Then::Restarts(restart) => {
            call.push("restarts");
            call.push(&restart.first[..]);
            call.push(ms(restart.seen_for));
            call.push(MAX_SEEN);
        }
        Then::Ends(close) => {
            call.push("ends");
            push_close(call, close);
        }
    }
}

pub(super) fn push_close(call: &mut Call<'_>, close: &Close) {
    call.push(close.status.as_str());
    call.push(&close.output[..]);
    call.push(close.error.as_ref().map_or_else(String::new, |error| format!("={error}")));
    call.push(if close.told.is_some() { "1" } else { "0" });
    close.told.iter().for_each(|told| push_delivery(call, told));
}

pub(super) fn push_delivery(call: &mut Call<'_>, delivery: &Delivery) {
    call.push(delivery.run.as_str());
    call.push(kind(delivery.written.kind));
    call.push(&delivery.written.entry[..]);
    call.push(delivery.id.as_deref().unwrap_or_default());
    call.push(delivery.seq.map_or_else(String::new, |seq| seq.to_string()));
}

pub(super) fn push_effects(call: &mut Call<'_>, effects: &[Effect]) {
    call.push(effects.len());
    effects.iter().for_each(|effect| push_effect(call, effect));
}

fn push_effect(call: &mut Call<'_>, effect: &Effect) {
    match effect {
        Effect::Job { queue, job } => {
            call.push("job");
            call.push(letter(queue));
            call.push(queue.name.as_str());
            call.push(job.id.as_str());
            call.push(due(job.due));
            call.push(&job.envelope[..]);
        }
        Effect::CancelJob(job) => {
            call.push("cancel");
            call.push(job.as_str());
        }
        Effect::Alarm { seq, due, alarm } => {
            call.push("alarm");
            call.push(seq);
            call.push((*due).min(Timestamp::MAX).0);
            call.push(alarm.letter());
        }
        Effect::DropAlarm { seq } => {
            call.push("drop");
            call.push(seq);
        }
        Effect::Attributes(attributes) => {
            call.push("attributes");
            call.push(attributes.len());
            for (name, value) in attributes {
                call.push(Topic::as_str(name));
                call.push(value.text());
            }
        }
        Effect::Record(end) => {
            call.push("record");
            call.push(end.job.chain().as_str());
            call.push(&record::write(end)[..]);
            call.push(ms(end.keep));
        }
    }
}

/// An entry's kind, in the journal's word.
pub(super) fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Commit => "commit",
        EntryKind::Answer => "answer",
        EntryKind::Message => "message",
    }
}

/// About how many bytes a commit comes to.
pub(super) fn weight(commit: &Commit) -> usize {
    let heavy = |effect: &Effect| match effect {
        Effect::Job { job, .. } => job.envelope.len() + OVERHEAD,
        Effect::Record(end) => end.output.len() + OVERHEAD,
        _ => OVERHEAD,
    };
    commit.entry.len() + commit.effects.iter().map(heavy).sum::<usize>()
}
