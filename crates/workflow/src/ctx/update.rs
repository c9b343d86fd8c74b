//! Updates: requests to a run that are answered.

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
use super::leaf::Leaf;
use crate::definition::Update;
use crate::error::Cancelled;
use crate::state::{On, Outcome, Shared};

impl Ctx {
    /// The requests of one name, in the order in which they came.
    pub fn updates<I, O>(&self, update: &Update<I, O>) -> Updates<I, O> {
        Updates { ctx: self.clone(), name: update.name(), types: PhantomData }
    }
}

/// The requests of one name.
#[derive(Debug)]
pub struct Updates<I, O> {
    ctx: Ctx,
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I: DeserializeOwned, O: Serialize> Updates<I, O> {
    /// Waits for the next. One whose payload does not fit is rejected and not seen here.
    pub fn recv(&self) -> RecvRequest<I, O> {
        RecvRequest { leaf: Leaf::of(&self.ctx), name: self.name, listening: false, types: PhantomData }
    }
}

/// A request that has not come yet.
#[must_use = "futures do nothing unless they are awaited"]
pub struct RecvRequest<I, O> {
    leaf: Leaf,
    name: &'static str,
    listening: bool,
    types: PhantomData<fn(I) -> O>,
}

impl<I: DeserializeOwned, O: Serialize> Future for RecvRequest<I, O> {
    type Output = Result<Request<I, O>, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let message = ready!(self.next(cx))?;
            if let Some(request) = Request::of(&self.leaf.shared, message) {
                return Poll::Ready(Ok(request));
            }
            self.listening = false;
        }
    }
}

impl<I, O> RecvRequest<I, O> {
    fn next(&mut self, cx: &Context<'_>) -> Poll<Result<StoredSignal, Cancelled>> {
        let name = self.name;
        if !self.listening {
            self.listening = true;
            let found = self.leaf.listen(On::Update(name), |state, key| {
                let found = state.updates.take(name);
                if found.is_none() {
                    state.updates.wait(name, key);
                }
                found
            })?;
            if let Some(message) = found {
                return Poll::Ready(Ok(message));
            }
        }
        match ready!(self.leaf.poll(cx)) {
            Outcome::Message(message) => Poll::Ready(Ok(message.content)),
            _ => Poll::Ready(Err(Cancelled)),
        }
    }
}

/// A request that waits for its answer. Dropped without one, it is rejected.
#[must_use = "whoever asked waits for an answer"]
pub struct Request<I, O> {
    /// What is asked for.
    pub input: I,
    answer: Reply,
    output: PhantomData<fn(O)>,
}

impl<I: DeserializeOwned, O: Serialize> Request<I, O> {
    fn of(shared: &Arc<Shared>, message: StoredSignal) -> Option<Self> {
        let mut answer = Reply { shared: shared.clone(), id: Some(message.id) };
        match message.payload.read() {
            Ok(input) => Some(Self { input, answer, output: PhantomData }),
            Err(error) => {
                answer.send(rejected(format!("the payload does not fit: {error}")));
                None
            }
        }
    }

    /// Answers.
    pub fn reply(mut self, output: &O) {
        let result = Json::from_value(output).map_err(|error| error.to_string());
        let result = result.and_then(|answer| self.answer.weigh(answer));
        self.answer.send(result.map_or_else(rejected, UpdateResult::Ok));
    }

    /// Refuses, and says why.
    pub fn reject(mut self, why: impl Display) {
        self.answer.send(rejected(why.to_string()));
    }
}

fn rejected(message: String) -> UpdateResult {
    UpdateResult::Failed { message }
}

struct Reply {
    shared: Arc<Shared>,
    id: Option<String>,
}

impl Reply {
    /// The answer, unless it is too large. What it says does not change what the code does, so a replay need not know.
    fn weigh(&self, answer: Json) -> Result<Json, String> {
        let weighed = self.shared.lock().measure(answer.as_str().len());
        weighed.map(|()| answer).map_err(|too_large| format!("the answer has {too_large}"))
    }

    fn send(&mut self, result: UpdateResult) {
        if let Some(id) = self.id.take() {
            self.shared.lock().issue(Command::UpdateDone { id, result });
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(rejected("the run did not answer".to_owned()));
    }
}
