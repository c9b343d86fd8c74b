//! How what a run does is written for scripts. `lua/run.lua` reads it.

use tidemill_core::store::runs::{
    AfterCommit, CloseRun, CommitParams, Delivery, Effect, EntryKind, MAX_REMEMBERED_DELIVERIES,
};
use tidemill_core::workflow::Topic;

use super::stage::Given;
use crate::connection::Call;
use crate::connection::keys::letter;
use crate::inspect::record;
use crate::jobs::{OVERHEAD, due, ms};

pub(super) fn push_commit(call: &mut Call<'_>, commit: &CommitParams, effects: &Given<'_, Effect>) {
    call.push(commit.run.as_str());
    call.push(commit.id.number());
    call.push(commit.cursor);
    call.push(commit.upto);
    call.push(&commit.entry[..]);
    push_effects(call, effects);
    match &commit.then {
        AfterCommit::Running => call.push("goes_on"),
        AfterCommit::ContinueAsNew(restart) => {
            call.push("restarts");
            call.push(&restart.first[..]);
            call.push(ms(restart.id_retention));
            call.push(MAX_REMEMBERED_DELIVERIES);
        }
        AfterCommit::Close(close) => {
            call.push("ends");
            push_close(call, close);
        }
    }
}

pub(super) fn push_close(call: &mut Call<'_>, close: &CloseRun) {
    call.push(close.status.as_str());
    call.push(&close.output[..]);
    call.push(close.error.as_ref().map_or_else(String::new, |error| format!("={error}")));
    call.push(if close.notify_parent.is_some() { "1" } else { "0" });
    close.notify_parent.iter().for_each(|told| push_delivery(call, told));
}

pub(super) fn push_delivery(call: &mut Call<'_>, delivery: &Delivery) {
    call.push(delivery.run.as_str());
    call.push(kind(delivery.entry.kind));
    call.push(&delivery.entry.bytes[..]);
    call.push(delivery.id.as_deref().unwrap_or_default());
    call.push(delivery.seq.map_or_else(String::new, |seq| seq.to_string()));
}

pub(super) fn push_effects(call: &mut Call<'_>, effects: &Given<'_, Effect>) {
    match effects {
        Given::Items(effects) => {
            call.push(effects.len());
            effects.iter().for_each(|effect| write_effect(effect, &mut |text| call.push(text)));
        }
        Given::Staged { mark, count } => {
            call.push("staged");
            call.push(mark);
            call.push(*count);
        }
    }
}

/// Gives the arguments of an effect to `put`, one after the other.
pub(super) fn write_effect(effect: &Effect, put: &mut dyn FnMut(&[u8])) {
    let mut text = |text: &str| put(text.as_bytes());
    match effect {
        Effect::Job { queue, job } => {
            text("job");
            text(letter(queue));
            text(queue.name.as_str());
            text(job.id.as_str());
            text(&due(job.due));
            put(&job.envelope);
        }
        Effect::CancelJob(job) => {
            text("cancel");
            text(job.as_str());
        }
        Effect::SetTimer { seq, due: at, timer: alarm } => {
            text("alarm");
            text(&seq.to_string());
            text(&due(*at));
            text(alarm.code());
        }
        Effect::CancelTimer { seq } => {
            text("drop");
            text(&seq.to_string());
        }
        Effect::Attributes(attributes) => {
            text("attributes");
            text(&attributes.len().to_string());
            for (name, value) in attributes {
                text(Topic::as_str(name));
                text(value.as_str());
            }
        }
        Effect::Record(end) => {
            text("record");
            text(end.job.chain().as_str());
            put(&record::write(end));
            put(ms(end.keep).to_string().as_bytes());
        }
    }
}

/// An entry's kind, in the journal's word.
pub(super) fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Commit => "commit",
        EntryKind::CommandResult => "answer",
        EntryKind::Message => "message",
    }
}

/// About how many bytes an effect comes to.
pub(super) fn weight_of(effect: &Effect) -> usize {
    match effect {
        Effect::Job { job, .. } => job.envelope.len() + OVERHEAD,
        Effect::Record(end) => end.output.len() + OVERHEAD,
        _ => OVERHEAD,
    }
}

/// About how many bytes a commit comes to.
pub(super) fn weight(commit: &CommitParams, effects: &Given<'_, Effect>) -> usize {
    let effects = match effects {
        Given::Items(effects) => effects.iter().map(weight_of).sum(),
        Given::Staged { .. } => 0,
    };
    commit.entry.len() + effects
}
