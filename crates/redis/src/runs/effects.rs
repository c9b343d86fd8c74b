//! Commits, deliveries and effects as arguments of scripts. `lua/lib/run.lua` reads them.

use tidemill_core::store::runs::{
    AfterCommit, CloseRun, CommitParams, Delivery, Effect, EntryKind, MAX_REMEMBERED_DELIVERIES,
};
use tidemill_core::workflow::Topic;

use super::stage::ScriptItems;
use crate::connection::ScriptCall;
use crate::connection::keys::kind_letter;
use crate::inspect::record;
use crate::jobs::{ITEM_OVERHEAD_BYTES, due_argument, ms};

pub(super) fn push_commit(
    call: &mut ScriptCall<'_>,
    commit: &CommitParams,
    effects: &ScriptItems<'_, Effect>,
) {
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

pub(super) fn push_close(call: &mut ScriptCall<'_>, close: &CloseRun) {
    call.push(close.status.as_str());
    call.push(&close.output[..]);
    call.push(close.error.as_ref().map_or_else(String::new, |error| format!("={error}")));
    call.push(if close.notify_parent.is_some() { "1" } else { "0" });
    close.notify_parent.iter().for_each(|told| push_delivery(call, told));
}

pub(super) fn push_delivery(call: &mut ScriptCall<'_>, delivery: &Delivery) {
    call.push(delivery.run.as_str());
    call.push(kind_word(delivery.entry.kind));
    call.push(&delivery.entry.bytes[..]);
    call.push(delivery.id.as_deref().unwrap_or_default());
    call.push(delivery.seq.map_or_else(String::new, |seq| seq.to_string()));
}

pub(super) fn push_effects(call: &mut ScriptCall<'_>, effects: &ScriptItems<'_, Effect>) {
    match effects {
        ScriptItems::Items(effects) => {
            call.push(effects.len());
            effects.iter().for_each(|effect| write_effect(effect, &mut |text| call.push(text)));
        }
        ScriptItems::Staged { staging_id, count } => {
            call.push("staged");
            call.push(staging_id);
            call.push(*count);
        }
    }
}

/// Passes the arguments of an effect to `put`, one by one.
pub(super) fn write_effect(effect: &Effect, put: &mut dyn FnMut(&[u8])) {
    let mut text = |text: &str| put(text.as_bytes());
    match effect {
        Effect::Job { queue, job } => {
            text("job");
            text(kind_letter(queue));
            text(queue.name.as_str());
            text(job.id.as_str());
            text(&due_argument(job.due));
            put(&job.envelope);
        }
        Effect::CancelJob(job) => {
            text("cancel");
            text(job.as_str());
        }
        Effect::SetTimer { seq, due: at, timer: alarm } => {
            text("alarm");
            text(&seq.to_string());
            text(&due_argument(*at));
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

/// The kind of an entry as stored in the journal.
pub(super) fn kind_word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Commit => "commit",
        EntryKind::CommandResult => "answer",
        EntryKind::Message => "message",
    }
}

/// Approximate size of an effect in bytes.
pub(super) fn effect_bytes(effect: &Effect) -> usize {
    match effect {
        Effect::Job { job, .. } => job.envelope.len() + ITEM_OVERHEAD_BYTES,
        Effect::Record(end) => end.output.len() + ITEM_OVERHEAD_BYTES,
        _ => ITEM_OVERHEAD_BYTES,
    }
}

/// Approximate size of a commit in bytes.
pub(super) fn commit_bytes(commit: &CommitParams, effects: &ScriptItems<'_, Effect>) -> usize {
    let effects = match effects {
        ScriptItems::Items(effects) => effects.iter().map(effect_bytes).sum(),
        ScriptItems::Staged { .. } => 0,
    };
    commit.entry.len() + effects
}
