//! Sessions are held, ended, and asked to end.

use redis::Value;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::{SessionId, WorkerDefaults};
use tidemill_core::store::fleet::{AttachParams, Attached, ReleaseParams};

use crate::error::odd_answer;
use crate::jobs::portions;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{array, int, ints, text};

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

    pub(super) async fn end_sessions(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        let mut answers = Vec::with_capacity(release.len());
        for portion in portions((0..release.len()).collect(), |_| 0) {
            let mut call = self.call_on_fleet(&self.registry.scripts.release, WorkerDefaults::default());
            for &position in &portion {
                call.push(release[position].session.as_str());
                call.push(release[position].holder.as_str());
            }
            let ended = ints(self.ask_fleet(call).await?, "release")?;
            if ended.len() != portion.len() {
                return Err(odd_answer("release"));
            }
            answers.extend(ended.into_iter().map(|ended| ended == 1));
        }
        Ok(answers)
    }

    pub(super) async fn close_session(&self, session: &SessionId) -> Result<bool, Error> {
        let call =
            self.call_on_fleet(&self.registry.scripts.close, WorkerDefaults::default()).arg(session.as_str());
        Ok(int(&self.ask_fleet(call).await?) == Some(1))
    }
}

fn push_attach(call: &mut Call<'_>, attach: &AttachParams) {
    call.push(attach.session.as_str());
    call.push(attach.member.to_string());
    call.push(attach.holder.as_str());
    call.push(millis(attach.ttl));
    call.push(millis(attach.keep));
    call.push(u8::from(attach.connected));
    call.push(u8::from(attach.take));
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
