//! Updates: requests to a run that it answers.

use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::workflow::{Command, Json, StoredSignal, UpdateResult};

use super::Ctx;
use super::future::CtxFuture;
use crate::definition::Update;
use crate::error::RunCancelled;
use crate::state::{SharedState, WaitResult, WaitTarget};

impl Ctx {
    /// The updates of one name, in the order of arrival.
    pub fn updates<I, O>(&self, update: &Update<I, O>) -> Updates<I, O> {
        Updates { ctx: self.clone(), name: update.name(), types: PhantomData }
    }
}

/// The updates of one name.
#[derive(Debug)]
pub struct Updates<I, O> {
    ctx: Ctx,
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I: DeserializeOwned, O: Serialize> Updates<I, O> {
    /// Waits for the next update. Rejects updates whose payload does not fit, without returning
    /// them.
    pub fn recv(&self) -> RecvUpdate<I, O> {
        RecvUpdate { inner: CtxFuture::new(&self.ctx), name: self.name, waiting: false, types: PhantomData }
    }
}

/// The future of the next update.
#[must_use = "futures do nothing unless they are awaited"]
pub struct RecvUpdate<I, O> {
    inner: CtxFuture,
    name: &'static str,
    waiting: bool,
    types: PhantomData<fn(I) -> O>,
}

impl<I: DeserializeOwned, O: Serialize> Future for RecvUpdate<I, O> {
    type Output = Result<UpdateRequest<I, O>, RunCancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let message = ready!(self.next(cx))?;
            if let Some(request) = UpdateRequest::from_message(&self.inner.shared, message) {
                return Poll::Ready(Ok(request));
            }
            self.waiting = false;
        }
    }
}

impl<I, O> RecvUpdate<I, O> {
    fn next(&mut self, cx: &Context<'_>) -> Poll<Result<StoredSignal, RunCancelled>> {
        let name = self.name;
        if !self.waiting {
            self.waiting = true;
            let found = self.inner.wait_for(WaitTarget::Update(name), |state, key| {
                let found = state.updates.take(name);
                if found.is_none() {
                    state.updates.add_waiter(name, key);
                }
                found
            })?;
            if let Some(message) = found {
                return Poll::Ready(Ok(message));
            }
        }
        match ready!(self.inner.poll(cx)) {
            WaitResult::Message(message) => Poll::Ready(Ok(message.content)),
            _ => Poll::Ready(Err(RunCancelled)),
        }
    }
}

/// An update that waits for its answer. Rejected if it is dropped without one.
#[must_use = "whoever asked waits for an answer"]
pub struct UpdateRequest<I, O> {
    /// The update's input.
    pub input: I,
    reply: UpdateReply,
    output: PhantomData<fn(O)>,
}

impl<I: DeserializeOwned, O: Serialize> UpdateRequest<I, O> {
    fn from_message(shared: &Arc<SharedState>, message: StoredSignal) -> Option<Self> {
        let mut reply = UpdateReply { shared: shared.clone(), id: Some(message.id) };
        match message.payload.read() {
            Ok(input) => Some(Self { input, reply, output: PhantomData }),
            Err(error) => {
                reply.send(rejected(format!("the payload does not fit: {error}")));
                None
            }
        }
    }

    /// Answers the update.
    pub fn reply(mut self, output: &O) {
        let result = Json::from_value(output).map_err(|error| error.to_string());
        let result = result.and_then(|answer| self.reply.check_size(answer));
        self.reply.send(result.map_or_else(rejected, UpdateResult::Ok));
    }

    /// Rejects the update with a reason.
    pub fn reject(mut self, why: impl Display) {
        self.reply.send(rejected(why.to_string()));
    }
}

fn rejected(message: String) -> UpdateResult {
    UpdateResult::Failed { message }
}

struct UpdateReply {
    shared: Arc<SharedState>,
    id: Option<String>,
}

impl UpdateReply {
    /// Checks the size of the answer. The check does not affect the code, so a replay need not
    /// repeat it.
    fn check_size(&self, answer: Json) -> Result<Json, String> {
        let checked = self.shared.lock().check_limit(answer.as_str().len());
        checked.map(|()| answer).map_err(|too_large| format!("the answer has {too_large}"))
    }

    fn send(&mut self, result: UpdateResult) {
        if let Some(id) = self.id.take() {
            self.shared.lock().issue(Command::UpdateDone { id, result });
        }
    }
}

impl Drop for UpdateReply {
    fn drop(&mut self) {
        self.send(rejected("the run did not answer".to_owned()));
    }
}
