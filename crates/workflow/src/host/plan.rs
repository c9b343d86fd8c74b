//! Telling a worker of workflows and activities.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::envelope::task_kind;
use tidemill_core::name::InvalidName;
use tidemill_core::workflow::{Route, WorkflowName};
use tidemill_worker::{BuildError, Extension, Extract, WorkerBuilder};

use super::Host;
use super::activity::{ActivityFn, Described};
use super::cache::Cache;
use super::query::QUERY;
use crate::ctx::Ctx;
use crate::definition::{Activity, Workflow};
use crate::ending::WorkflowError;
use crate::program::{Program, Programs};
use crate::wire::ERRAND;

/// How many runs stay in memory unless somebody says otherwise.
const CACHE: usize = 10_000;

/// How many tasks of a workflow, and how many activities of a queue, run at once unless somebody says otherwise.
const CONCURRENCY: usize = 100;

/// What a [`Worker`] can do with workflows.
pub trait RunWorkflows: Sized {
    /// Runs the tasks of `workflow` with this code. May be called once for each version of the same workflow: runs keep
    /// the version they were started with.
    fn workflow<I, O, C, F>(self, workflow: &Workflow<I, O>, code: C) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        C: Fn(Ctx, I) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, WorkflowError>> + Send + 'static;

    /// Runs `activity` with this function, as a job of its queue and inside tasks. The queue is served by this worker
    /// from now on; [`WorkerBuilder::queue`] sets how many run at once.
    fn activity<I, O, Args, F>(self, activity: &Activity<I, O>, function: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        Args: Extract,
        F: ActivityFn<I, O, Args>;

    /// Takes the tasks of runs with this route, and none of those without one. May be called several times.
    fn route(self, route: &str) -> Self;

    /// Runs up to this many tasks of each workflow at once (100 unless set).
    fn workflow_concurrency(self, tasks: usize) -> Self;

    /// Keeps up to this many runs in memory between their tasks (10,000 unless set); with 0, every task begins with the
    /// whole journal.
    fn workflow_cache(self, runs: usize) -> Self;

    /// Lets journals grow to this many entries, whatever their runs say: for runs that are blocked because theirs is
    /// too long.
    fn journal_limit(self, entries: u64) -> Self;
}

impl RunWorkflows for WorkerBuilder {
    fn workflow<I, O, C, F>(self, workflow: &Workflow<I, O>, code: C) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        C: Fn(Ctx, I) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, WorkflowError>> + Send + 'static,
    {
        let program = Program::new(workflow, code);
        self.extend(|plan: &mut Plan| plan.programs.add(program))
    }

    fn activity<I, O, Args, F>(self, activity: &Activity<I, O>, function: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        Args: Extract,
        F: ActivityFn<I, O, Args>,
    {
        let described = Described::new(activity, function);
        self.extend(|plan: &mut Plan| plan.activities.push(described))
    }

    fn route(self, route: &str) -> Self {
        self.extend(|plan: &mut Plan| plan.routes.push(Route::new(route)))
    }

    fn workflow_concurrency(self, tasks: usize) -> Self {
        self.extend(|plan: &mut Plan| plan.concurrency = tasks)
    }

    fn workflow_cache(self, runs: usize) -> Self {
        self.extend(|plan: &mut Plan| plan.cache = runs)
    }

    fn journal_limit(self, entries: u64) -> Self {
        self.extend(|plan: &mut Plan| plan.limit = Some(entries))
    }
}

/// What a worker has been told so far.
struct Plan {
    programs: Programs,
    activities: Vec<Described>,
    routes: Vec<Result<Route, InvalidName>>,
    concurrency: usize,
    cache: usize,
    limit: Option<u64>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            programs: Programs::new(),
            activities: Vec::new(),
            routes: Vec::new(),
            concurrency: CONCURRENCY,
            cache: CACHE,
            limit: None,
        }
    }
}

impl Extension for Plan {
    fn install(self: Box<Self>, worker: WorkerBuilder) -> Result<WorkerBuilder, BuildError> {
        let Self { programs, activities, routes, concurrency, cache, limit } = *self;
        let routes: Vec<_> = routes.into_iter().collect::<Result<_, _>>()?;
        let (mut worker, mut locals) = (worker, HashMap::new());
        for activity in activities {
            let (kind, queue) = (activity.kind(), activity.queue);
            let code = (activity.prepare)(worker.states())
                .map_err(|missing| missing.into_build_error(activity.name))?;
            locals.extend(kind.map(|kind| (kind, code.clone())));
            worker = worker.handle_untyped(activity.name, move |_, cx| code(cx));
            worker = serve(worker, queue, CONCURRENCY);
        }
        let names: HashSet<WorkflowName> = programs.iter().map(|program| program.name().clone()).collect();
        if names.is_empty() {
            return Ok(worker);
        }
        let (cache, payload_limit) = (Arc::new(Cache::new(cache)), worker.client().payload_limit());
        let host = Arc::new(Host { programs, locals, cache, limit, payload_limit });
        for name in &names {
            worker = host.clone().take_tasks(worker, name);
            for queue in queues(name, &routes) {
                worker = serve(worker, &queue, concurrency);
            }
        }
        Ok(host.run_errands(worker))
    }
}

fn serve(worker: WorkerBuilder, queue: &str, concurrency: usize) -> WorkerBuilder {
    if worker.serves(queue) { worker } else { worker.queue(queue, concurrency) }
}

/// The queues of a workflow's tasks.
fn queues(workflow: &WorkflowName, routes: &[Route]) -> Vec<String> {
    let name = |route| workflow.queue(route).name.as_str().to_owned();
    if routes.is_empty() { vec![name(None)] } else { routes.iter().map(|route| name(Some(route))).collect() }
}

impl Host {
    fn take_tasks(self: Arc<Self>, worker: WorkerBuilder, workflow: &WorkflowName) -> WorkerBuilder {
        worker.handle_untyped(task_kind(workflow).as_str(), move |envelope, cx| {
            let host = self.clone();
            async move { host.task(&envelope, &cx).await }
        })
    }

    fn run_errands(self: Arc<Self>, worker: WorkerBuilder) -> WorkerBuilder {
        let host = self.clone();
        let worker = worker
            .handle_untyped(ERRAND, |envelope, cx| async move { super::errand::run(&envelope, &cx).await });
        worker.handle_untyped(QUERY, move |envelope, cx| {
            let host = host.clone();
            async move { host.query(&envelope, &cx).await }
        })
    }
}
