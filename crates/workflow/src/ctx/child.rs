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

use super::leaf::{Leaf, Refused};
use super::{Ctx, refuse};
use crate::definition::Workflow;
use crate::error::ChildError;
use crate::state::{On, Outcome, State};

impl Ctx {
    /// Runs another workflow as a child of this run. Started when it is first polled; dropped before it ended, it
    /// is asked to cancel.
    pub fn child<I: Serialize, O>(&self, workflow: &Workflow<I, O>, input: I) -> ChildCall<O> {
        let plan = Some(plan(workflow, &input));
        ChildCall { leaf: Leaf::of(self), workflow: workflow.name(), plan, run: None, output: PhantomData }
    }
}

type Plan = Result<Box<Draft>, String>;

struct Draft {
    workflow: WorkflowName,
    version: Version,
    input: Json,
    run: Option<RunId>,
    parent_close: ParentClose,
}

fn plan<I: Serialize, O>(workflow: &Workflow<I, O>, input: &I) -> Plan {
    Ok(Box::new(Draft {
        workflow: WorkflowName::new(workflow.name()).map_err(|error| error.to_string())?,
        version: Version::new(workflow.version_text()).map_err(|error| error.to_string())?,
        input: Json::from_value(input).map_err(|error| error.to_string())?,
        run: None,
        parent_close: ParentClose::default(),
    }))
}

impl Draft {
    fn child(self, state: &State, seq: u64, told: NotifyParent) -> StartChild {
        let run = self.run.unwrap_or_else(|| state.run.child(seq));
        let Self { workflow, version, input, parent_close, .. } = self;
        let keep_ms = state.keep_ms;
        StartChild { seq, workflow, version, input, run, parent_close, told, keep_ms }
    }
}

/// A child, not yet ended.
#[must_use = "a child is started when it is awaited"]
pub struct ChildCall<O> {
    leaf: Leaf,
    workflow: &'static str,
    /// Until it is started.
    plan: Option<Plan>,
    /// Since then.
    run: Option<RunId>,
    output: PhantomData<fn() -> O>,
}

impl<O> ChildCall<O> {
    /// Gives the child this id. A run of that id that exists already is an error.
    pub fn id(mut self, run: RunId) -> Self {
        if let Some(Ok(draft)) = &mut self.plan {
            draft.run = Some(run);
        }
        self
    }

    /// Says what becomes of the child when this run ends first.
    pub fn parent_close(mut self, policy: ParentClose) -> Self {
        if let Some(Ok(draft)) = &mut self.plan {
            draft.parent_close = policy;
        }
        self
    }

    /// Waits only until the child exists; its handle waits for its end.
    pub fn start(self) -> StartedChild<O> {
        StartedChild { call: Some(self) }
    }

    /// Waits only until the child exists, and leaves it alone then: it goes on when this run ends.
    pub fn detach(self) -> DetachedChild<O> {
        DetachedChild { call: self.parent_close(ParentClose::Abandon) }
    }

    fn cancelled(&self) -> ChildError {
        ChildError::Cancelled { workflow: self.workflow }
    }

    /// Starts it, the first time it is polled.
    fn begin(&mut self, told: NotifyParent) -> Result<(), ChildError> {
        let draft = match self.plan.take() {
            None => return Ok(()),
            Some(Ok(draft)) => draft,
            Some(Err(message)) => {
                let what = format!("what child workflow `{}` is started with", self.workflow);
                refuse(&mut self.leaf.shared.lock(), what, message);
                return Ok(());
            }
        };
        let (run, workflow, size) = (&mut self.run, self.workflow, draft.input.as_str().len());
        let asked = self.leaf.hand_on(On::Child(workflow), size, |state, seq| {
            let child = draft.child(state, seq, told);
            *run = Some(child.run.clone());
            Command::StartChild(Box::new(child))
        });
        asked.map_err(|refused| match refused {
            Refused::Cancelled => ChildError::Cancelled { workflow },
            Refused::TooLarge(too_large) => ChildError::TooLarge { workflow, too_large },
        })
    }

    /// Waits until it exists.
    fn poll_started(&mut self, told: NotifyParent, cx: &Context<'_>) -> Poll<Result<(), ChildError>> {
        self.begin(told)?;
        if self.leaf.poll_started(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        // One that cannot be started has ended without ever having existed.
        let outcome = ready!(self.leaf.poll(cx));
        Poll::Ready(self.result(outcome).map(drop))
    }

    fn result(&self, outcome: Outcome) -> Result<Json, ChildError> {
        match outcome {
            Outcome::Child(end) => ChildError::of(self.workflow, end),
            _ => Err(self.cancelled()),
        }
    }
}

impl<O: DeserializeOwned> ChildCall<O> {
    fn poll_ended(&mut self, cx: &Context<'_>) -> Poll<Result<O, ChildError>> {
        let outcome = ready!(self.leaf.poll(cx));
        let json = self.result(outcome)?;
        self.leaf.read(&json, || format!("the result of child workflow `{}`", self.workflow)).map(Ok)
    }
}

impl<O: DeserializeOwned> Future for ChildCall<O> {
    type Output = Result<O, ChildError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin(NotifyParent::End)?;
        self.poll_ended(cx)
    }
}

/// A child that is being started.
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

/// A child that exists. Awaited, it gives the child's result; dropped before, it asks the child to cancel.
#[must_use = "a child whose handle is dropped is asked to cancel"]
pub struct ChildHandle<O> {
    call: ChildCall<O>,
    run: RunId,
}

impl<O> ChildHandle<O> {
    /// The child's identity.
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

/// A child that is being started and then left alone.
#[must_use = "a child is started when it is awaited"]
pub struct DetachedChild<O> {
    call: ChildCall<O>,
}

impl<O> Future for DetachedChild<O> {
    type Output = Result<RunId, ChildError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.call.poll_started(NotifyParent::Start, cx))?;
        self.call.leaf.let_go();
        self.call.run.clone().map_or(Poll::Pending, |run| Poll::Ready(Ok(run)))
    }
}
