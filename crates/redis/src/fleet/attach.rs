//! Renewing sessions.

use redis::Value;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::{AttachParams, Attached};

use crate::connection::ScriptCall;
use crate::connection::reply::{array, text};
use crate::error::unexpected_reply;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn attach_sessions(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
        attach.iter().try_for_each(AttachParams::check)?;
        let mut results = Vec::with_capacity(attach.len());
        for batch in script_batches((0..attach.len()).collect(), |position| attach[position].detail.len()) {
            let mut call =
                self.fleet_script_call(&self.fleet_state.scripts.attach, WorkerDefaults::default());
            batch.iter().for_each(|&position| push_attach(&mut call, &attach[position]));
            let reply = array(self.call_fleet(call).await?).filter(|reply| reply.len() == batch.len());
            let words = reply.ok_or_else(|| unexpected_reply("attach"))?;
            for word in words {
                results.push(read(word).ok_or_else(|| unexpected_reply("attach"))?);
            }
        }
        Ok(results)
    }
}

fn push_attach(call: &mut ScriptCall<'_>, attach: &AttachParams) {
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
