//! The code of a workflow, with its types erased.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::name::InvalidName;
use tidemill_core::workflow::{Json, Version, WorkflowName};

use crate::ctx::Ctx;
use crate::definition::Workflow;
use crate::ending::{Ending, WorkflowError};

/// A workflow's code, under way.
pub(crate) type RootFuture = Pin<Box<dyn Future<Output = Result<Json, WorkflowError>> + Send>>;

type Start = dyn Fn(Ctx, &Json) -> serde_json::Result<RootFuture> + Send + Sync;

/// A workflow and the code that runs it. Cheap to clone.
#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    name: WorkflowName,
    version: Version,
    input: TypeId,
    start: Box<Start>,
}

impl Program {
    /// Says which function is the code of `workflow`.
    pub fn new<I, O, C, F>(workflow: &Workflow<I, O>, code: C) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        C: Fn(Ctx, I) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, WorkflowError>> + Send + 'static,
    {
        let start = move |ctx, input: &Json| {
            let running = code(ctx, input.read()?);
            // `map` and not an async block: that would hold the code's future twice.
            Ok(running.map(written).boxed())
        };
        Self(Arc::new(Inner {
            name: declared(WorkflowName::new(workflow.name())),
            version: declared(Version::new(workflow.version_text())),
            input: TypeId::of::<I>(),
            start: Box::new(start),
        }))
    }

    /// The workflow's name.
    pub fn name(&self) -> &WorkflowName {
        &self.0.name
    }

    /// The version of this code.
    pub fn version(&self) -> &Version {
        &self.0.version
    }

    pub(crate) fn input(&self) -> TypeId {
        self.0.input
    }

    pub(crate) fn start(&self, ctx: Ctx, input: &Json) -> serde_json::Result<RootFuture> {
        (self.0.start)(ctx, input)
    }
}

fn declared<N>(name: Result<N, InvalidName>) -> N {
    name.unwrap_or_else(|error| unreachable!("names are checked where a workflow is declared: {error}"))
}

fn written<O: Serialize>(output: Result<O, WorkflowError>) -> Result<Json, WorkflowError> {
    Json::from_value(&output?).map_err(|error| WorkflowError(Ending::Unwritable(error.to_string())))
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(self.name()).field(self.version()).finish()
    }
}

/// The programs that somebody knows, by name and version.
#[derive(Debug, Clone, Default)]
pub struct Programs(HashMap<WorkflowName, HashMap<Version, Program>>);

impl Programs {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one, in the place of one with the same name and version.
    pub fn add(&mut self, program: Program) {
        let versions = self.0.entry(program.name().clone()).or_default();
        versions.insert(program.version().clone(), program);
    }

    /// The program of this name and version.
    pub fn find(&self, name: &WorkflowName, version: &Version) -> Option<&Program> {
        self.0.get(name)?.get(version)
    }

    /// Every program.
    pub fn iter(&self) -> impl Iterator<Item = &Program> {
        self.0.values().flat_map(HashMap::values)
    }
}
