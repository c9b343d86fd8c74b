//! Renewing sessions.

use redis::Value;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::store::fleet::{AttachParams, Attached};

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, text};
use crate::error::unexpected_reply;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn attach_sessions(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
        attach.iter().try_for_each(AttachParams::check)?;
        let mut results = Vec::with_capacity(attach.len());
        for batch in script_batches((0..attach.len()).collect(), |position| attach[position].detail.len()) {
            let sessions: Vec<NamedArgs> =
                batch.iter().map(|&position| attach_args(&attach[position])).collect();
            let args = NamedArgs::new().with("sessions", sessions);
            let reply = self.call_fleet(&self.fleet_state.scripts.attach, args).await?;
            let reply = array(reply).filter(|reply| reply.len() == batch.len());
            let words = reply.ok_or_else(|| unexpected_reply("attach"))?;
            for word in words {
                results.push(read(word).ok_or_else(|| unexpected_reply("attach"))?);
            }
        }
        Ok(results)
    }
}

fn attach_args(attach: &AttachParams) -> NamedArgs {
    NamedArgs::new()
        .with("id", attach.session.as_str())
        .with("member", attach.worker.to_string())
        .with("holder", attach.holder.as_str())
        .with("ttl", millis(attach.ttl))
        .with("keep", millis(attach.keep))
        .with("connected", attach.connected)
        .with("takes", attach.take_over)
        .with("must_exist", attach.must_exist)
        .with("started", attach.started_at.0.to_string())
        .with("detail", &attach.detail)
}

fn read(word: Value) -> Option<Attached> {
    match text(word)?.as_str() {
        "held" => Some(Attached::Held),
        "closing" => Some(Attached::Closing),
        "lost" => Some(Attached::Lost),
        _ => None,
    }
}
