//! Extending the leases of sessions.

use redis::Value;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::{AttachParams, Attached};

use crate::connection::Call;
use crate::connection::reply::{array, text};
use crate::error::odd_answer;
use crate::jobs::portions;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn hold_sessions(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
        attach.iter().try_for_each(AttachParams::check)?;
        let mut answers = Vec::with_capacity(attach.len());
        for portion in portions((0..attach.len()).collect(), |position| attach[position].detail.len()) {
            let mut call = self.call_on_fleet(&self.registry.scripts.attach, WorkerDefaults::default());
            portion.iter().for_each(|&position| push_attach(&mut call, &attach[position]));
            let part = array(self.ask_fleet(call).await?).filter(|part| part.len() == portion.len());
            let words = part.ok_or_else(|| odd_answer("attach"))?;
            for word in words {
                answers.push(read(word).ok_or_else(|| odd_answer("attach"))?);
            }
        }
        Ok(answers)
    }
}

fn push_attach(call: &mut Call<'_>, attach: &AttachParams) {
    call.push(attach.session.as_str());
    call.push(attach.worker.to_string());
    call.push(attach.holder.as_str());
    call.push(millis(attach.ttl));
    call.push(millis(attach.keep));
    call.push(u8::from(attach.connected));
    call.push(u8::from(attach.take_over));
    call.push(u8::from(attach.must_exist));
    call.push(attach.started_at.0);
    call.push(&attach.detail[..]);
}

fn read(word: Value) -> Option<Attached> {
    match text(word)?.as_str() {
        "held" => Some(Attached::Held),
        "closing" => Some(Attached::Closing),
        "lost" => Some(Attached::Lost),
        _ => None,
    }
}
