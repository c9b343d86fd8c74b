//! Commits, deliveries and effects as arguments of scripts. `lua/lib/run.lua` reads them.

use tidemill_core::store::runs::{
    AfterCommit, CloseRun, CommitParams, Delivery, Effect, EntryKind, MAX_REMEMBERED_DELIVERIES, StoredEntry,
};
use tidemill_core::workflow::Topic;

use super::stage::{MAX_SCRIPT_EFFECTS, ScriptItems};
use crate::connection::keys::kind_letter;
use crate::connection::named_args::{NamedArgs, Pack, Packed};
use crate::inspect::record;
use crate::jobs::{ITEM_OVERHEAD_BYTES, MAX_SCRIPT_BYTES, due_argument, ms};

pub(crate) fn commit_args(commit: &CommitParams, effects: &ScriptItems<'_, Effect>) -> NamedArgs {
    let args = NamedArgs::new()
        .with("run", commit.run.as_str())
        // As text: it has more digits than numbers keep in scripts.
        .with("id", commit.id.number().to_string())
        .with("cursor", commit.cursor)
        .with("upto", commit.upto)
        .with("entry", &commit.entry)
        .with("effects", effects_args(effects));
    match &commit.then {
        AfterCommit::Running => args,
        AfterCommit::Close(close) => args.with("close", close_args(close)),
        AfterCommit::ContinueAsNew(restart) => args.with(
            "restart",
            NamedArgs::new()
                .with("first", &restart.first)
                .with("id_retention", ms(restart.id_retention))
                .with("max_ids", MAX_REMEMBERED_DELIVERIES),
        ),
    }
}

pub(super) fn close_args(close: &CloseRun) -> NamedArgs {
    NamedArgs::new()
        .with("status", close.status.as_str())
        .with("output", Some(&close.output).filter(|output| !output.is_empty()))
        .with("error", close.error.as_ref())
        .with("parent", close.notify_parent.as_ref().map(delivery_args))
}

pub(crate) fn delivery_args(delivery: &Delivery) -> NamedArgs {
    NamedArgs::new()
        .with("run", delivery.run.as_str())
        .with("kind", kind_word(delivery.entry.kind))
        .with("entry", &delivery.entry.bytes)
        .with("id", delivery.id.as_deref().filter(|id| !id.is_empty()))
        .with("seq", delivery.seq.map(|seq| seq.to_string()))
}

pub(super) fn effects_args(effects: &ScriptItems<'_, Effect>) -> NamedArgs {
    effects.to_args(|effect| Packed(pack_effect(effect)))
}

pub(super) fn entry_args(entry: &StoredEntry) -> NamedArgs {
    NamedArgs::new().with("kind", kind_word(entry.kind)).with("entry", &entry.bytes)
}

/// An effect as a list of texts, as it is stored while it is staged or pending.
pub(super) fn pack_effect(effect: &Effect) -> Vec<u8> {
    let mut texts = Vec::<Vec<u8>>::new();
    write_effect(effect, &mut |text| texts.push(text.to_vec()));
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut packed = Vec::new();
    texts.pack(&mut packed);
    packed
}

/// Passes the arguments of an effect to `put`, one by one.
fn write_effect(effect: &Effect, put: &mut dyn FnMut(&[u8])) {
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

/// Approximate bytes of effects that fit in one script; `None` for more, which are staged.
pub(super) fn inline_bytes(effects: &[Effect]) -> Option<usize> {
    let bytes = effects.iter().map(effect_bytes).sum();
    (effects.len() <= MAX_SCRIPT_EFFECTS && bytes <= MAX_SCRIPT_BYTES).then_some(bytes)
}

/// Approximate size of a commit in bytes.
pub(crate) fn commit_bytes(commit: &CommitParams) -> usize {
    commit.entry.len() + inline_bytes(&commit.effects).unwrap_or(0)
}
