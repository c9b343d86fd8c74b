//! Child workflows: runs that a run starts.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::workflow::{
    Command, Json, NotifyParent, ParentClose, RunId, StartChild, Version, WorkflowName,
};

use super::future::{CtxFuture, IssueError};
use super::{Ctx, Draft};
use crate::definition::Workflow;
use crate::error::ChildError;
use crate::state::{RunState, WaitResult, WaitTarget};

impl Ctx {
    /// Runs another workflow as a child of this run. Started on the first poll; asked to cancel if
    /// dropped before it has ended.
    pub fn child<I: Serialize, O>(&self, workflow: &Workflow<I, O>, input: I) -> ChildCall<O> {
        ChildCall {
            inner: CtxFuture::new(self),
            workflow: workflow.name(),
            draft: Some(draft_child(workflow, &input)),
            run: None,
            output: PhantomData,
        }
    }
}

/// The parameters of a child.
struct ChildParams {
    workflow: WorkflowName,
    version: Version,
    input: Json,
    run: Option<RunId>,
    parent_close: ParentClose,
}

fn draft_child<I: Serialize, O>(workflow: &Workflow<I, O>, input: &I) -> Draft<ChildParams> {
    Ok(Box::new(ChildParams {
        workflow: WorkflowName::new(workflow.name()).map_err(|error| error.to_string())?,
        version: Version::new(workflow.version_text()).map_err(|error| error.to_string())?,
        input: Json::from_value(input).map_err(|error| error.to_string())?,
        run: None,
        parent_close: ParentClose::default(),
    }))
}

impl ChildParams {
    fn into_command(self, state: &RunState, seq: u64, notify: NotifyParent) -> StartChild {
        let run = self.run.unwrap_or_else(|| state.run.child(seq));
        let Self { workflow, version, input, parent_close, .. } = self;
        let keep_ms = state.keep_ms;
        StartChild { seq, workflow, version, input, run, parent_close, notify_parent: notify, keep_ms }
    }
}

/// The future of a child.
#[must_use = "a child is started when it is awaited"]
pub struct ChildCall<O> {
    inner: CtxFuture,
    workflow: &'static str,
    /// Taken when the child is started.
    draft: Option<Draft<ChildParams>>,
    /// Set when the child is started.
    run: Option<RunId>,
    output: PhantomData<fn() -> O>,
}

impl<O> ChildCall<O> {
    /// Sets the child's id. It is an error if a run with this id exists.
    pub fn id(mut self, run: RunId) -> Self {
        if let Some(Ok(draft)) = &mut self.draft {
            draft.run = Some(run);
        }
        self
    }

    /// Sets what happens to the child if this run ends first.
    pub fn parent_close(mut self, policy: ParentClose) -> Self {
        if let Some(Ok(draft)) = &mut self.draft {
            draft.parent_close = policy;
        }
        self
    }

    /// Waits only until the child exists. The returned handle waits for its end.
    pub fn start(self) -> StartedChild<O> {
        StartedChild { call: Some(self) }
    }

    /// Waits only until the child exists, and detaches it: it continues after this run has ended.
    pub fn detach(self) -> DetachedChild<O> {
        DetachedChild { call: self.parent_close(ParentClose::Abandon) }
    }

    fn cancelled(&self) -> ChildError {
        ChildError::Cancelled { workflow: self.workflow }
    }

    /// Starts the child on the first poll.
    fn issue(&mut self, notify: NotifyParent) -> Result<(), ChildError> {
        let draft = match self.draft.take() {
            None => return Ok(()),
            Some(Ok(draft)) => draft,
            Some(Err(message)) => {
                let what = format!("what child workflow `{}` is started with", self.workflow);
                self.inner.shared.lock().block_unreadable(what, message);
                return Ok(());
            }
        };
        let (run, workflow, size) = (&mut self.run, self.workflow, draft.input.as_str().len());
        let issued = self.inner.issue_with_payload(WaitTarget::Child(workflow), size, |state, seq| {
            let child = draft.into_command(state, seq, notify);
            *run = Some(child.run.clone());
            Command::StartChild(Box::new(child))
        });
        issued.map_err(|error| match error {
            IssueError::Cancelled => ChildError::Cancelled { workflow },
            IssueError::TooLarge(too_large) => ChildError::TooLarge { workflow, too_large },
        })
    }

    /// Waits until the child exists.
    fn poll_started(&mut self, notify: NotifyParent, cx: &Context<'_>) -> Poll<Result<(), ChildError>> {
        self.issue(notify)?;
        if self.inner.poll_started(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        // A child that cannot be started ends without having existed.
        let result = ready!(self.inner.poll(cx));
        Poll::Ready(self.result(result).map(drop))
    }

    fn result(&self, result: WaitResult) -> Result<Json, ChildError> {
        match result {
            WaitResult::Child(end) => ChildError::check_result(self.workflow, end),
            _ => Err(self.cancelled()),
        }
    }
}

impl<O: DeserializeOwned> ChildCall<O> {
    fn poll_ended(&mut self, cx: &Context<'_>) -> Poll<Result<O, ChildError>> {
        let result = ready!(self.inner.poll(cx));
        let json = self.result(result)?;
        self.inner.deserialize(&json, || format!("the result of child workflow `{}`", self.workflow)).map(Ok)
    }
}

impl<O: DeserializeOwned> Future for ChildCall<O> {
    type Output = Result<O, ChildError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.issue(NotifyParent::End)?;
        self.poll_ended(cx)
    }
}

/// The future of a child's start.
#[must_use = "a child is started when it is awaited"]
pub struct StartedChild<O> {
    call: Option<ChildCall<O>>,
}

impl<O> Future for StartedChild<O> {
    type Output = Result<ChildHandle<O>, ChildError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        ready!(call.poll_started(NotifyParent::Both, cx))?;
        let run = call.run.clone();
        let handle = self.call.take().zip(run).map(|(call, run)| ChildHandle { call, run });
        handle.map_or(Poll::Pending, |handle| Poll::Ready(Ok(handle)))
    }
}

/// A started child. Awaited, it returns the child's result; dropped before that, it asks the child
/// to cancel.
#[must_use = "a child whose handle is dropped is asked to cancel"]
pub struct ChildHandle<O> {
    call: ChildCall<O>,
    run: RunId,
}

impl<O> ChildHandle<O> {
    /// The child's id.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }
}

impl<O: DeserializeOwned> Future for ChildHandle<O> {
    type Output = Result<O, ChildError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll_ended(cx)
    }
}

/// The future of a detached child's start.
#[must_use = "a child is started when it is awaited"]
pub struct DetachedChild<O> {
    call: ChildCall<O>,
}

impl<O> Future for DetachedChild<O> {
    type Output = Result<RunId, ChildError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.call.poll_started(NotifyParent::Start, cx))?;
        self.call.inner.detach();
        self.call.run.clone().map_or(Poll::Pending, |run| Poll::Ready(Ok(run)))
    }
}
