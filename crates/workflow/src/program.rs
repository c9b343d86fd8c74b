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
use crate::error::{WorkflowError, WorkflowErrorKind};

/// A workflow's function in progress.
pub(crate) type RootFuture = Pin<Box<dyn Future<Output = Result<Json, WorkflowError>> + Send>>;

type StartFn = dyn Fn(Ctx, &Json) -> serde_json::Result<RootFuture> + Send + Sync;

/// A workflow and the function that implements it. Cheap to clone.
#[derive(Clone)]
pub struct Program(Arc<ProgramInner>);

struct ProgramInner {
    name: WorkflowName,
    version: Version,
    input: TypeId,
    start: Box<StartFn>,
}

impl Program {
    /// Binds `workflow` to the function that implements it.
    pub fn new<I, O, C, F>(workflow: &Workflow<I, O>, code: C) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        C: Fn(Ctx, I) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, WorkflowError>> + Send + 'static,
    {
        let start = move |ctx, input: &Json| {
            let running = code(ctx, input.read()?);
            // `map` instead of an async block, which would store the future twice.
            Ok(running.map(serialize_output).boxed())
        };
        Self(Arc::new(ProgramInner {
            name: expect_valid(WorkflowName::new(workflow.name())),
            version: expect_valid(Version::new(workflow.version_text())),
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

fn expect_valid<N>(name: Result<N, InvalidName>) -> N {
    name.unwrap_or_else(|error| unreachable!("names are checked where a workflow is declared: {error}"))
}

fn serialize_output<O: Serialize>(output: Result<O, WorkflowError>) -> Result<Json, WorkflowError> {
    Json::from_value(&output?)
        .map_err(|error| WorkflowError(WorkflowErrorKind::Unserializable(error.to_string())))
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(self.name()).field(self.version()).finish()
    }
}

/// Programs by name and version.
#[derive(Debug, Clone, Default)]
pub struct Programs(HashMap<WorkflowName, HashMap<Version, Program>>);

impl Programs {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a program. Replaces one with the same name and version.
    pub fn add(&mut self, program: Program) {
        let versions = self.0.entry(program.name().clone()).or_default();
        versions.insert(program.version().clone(), program);
    }

    /// The program with this name and version.
    pub fn find(&self, name: &WorkflowName, version: &Version) -> Option<&Program> {
        self.0.get(name)?.get(version)
    }

    /// All programs.
    pub fn iter(&self) -> impl Iterator<Item = &Program> {
        self.0.values().flat_map(HashMap::values)
    }
}
