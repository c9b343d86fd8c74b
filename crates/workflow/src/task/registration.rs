//! The registration of workflows and activities with a worker.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::envelope::task_kind;
use tidemill_core::name::InvalidName;
use tidemill_core::workflow::{Route, WorkflowName};
use tidemill_worker::{BuildError, Extension, Extract, WorkerBuilder};

use super::TaskHandler;
use super::activity::{ActivityFn, RegisteredActivity};
use super::cache::ReplayerCache;
use super::query::QUERY_KIND;
use super::remote_command::REMOTE_COMMAND_KIND;
use crate::ctx::Ctx;
use crate::definition::{Activity, Workflow};
use crate::error::WorkflowError;
use crate::program::{Program, Programs};

/// How many runs stay in memory unless set.
const DEFAULT_CACHED_RUNS: usize = 10_000;

/// How many tasks of a workflow, and activities of a queue, run at once unless set.
const DEFAULT_CONCURRENCY: usize = 100;

/// Extends [`WorkerBuilder`] with workflows.
pub trait RunWorkflows: Sized {
    /// Registers the code of `workflow`. Call it once for each version: runs keep the version they
    /// were started with.
    fn workflow<I, O, C, F>(self, workflow: &Workflow<I, O>, code: C) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        C: Fn(Ctx, I) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, WorkflowError>> + Send + 'static;

    /// Registers the function of `activity`, for jobs of its queue and inside tasks. The worker
    /// serves this queue; [`WorkerBuilder::queue`] sets its concurrency.
    fn activity<I, O, Args, F>(self, activity: &Activity<I, O>, function: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        Args: Extract,
        F: ActivityFn<I, O, Args>;

    /// Serves runs with this route, and no runs without a route. May be called several times.
    fn route(self, route: &str) -> Self;

    /// Sets how many tasks of each workflow run at once (100 unless set).
    fn workflow_concurrency(self, tasks: usize) -> Self;

    /// Sets how many runs stay in memory between their tasks (10,000 unless set). With 0, every
    /// task replays the whole journal.
    fn workflow_cache(self, runs: usize) -> Self;

    /// Overrides the maximum length of journals, in entries: for runs that are blocked because
    /// theirs is too long.
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
        self.extend(|extension: &mut WorkflowExtension| extension.programs.add(program))
    }

    fn activity<I, O, Args, F>(self, activity: &Activity<I, O>, function: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        Args: Extract,
        F: ActivityFn<I, O, Args>,
    {
        let described = RegisteredActivity::new(activity, function);
        self.extend(|extension: &mut WorkflowExtension| extension.activities.push(described))
    }

    fn route(self, route: &str) -> Self {
        self.extend(|extension: &mut WorkflowExtension| extension.routes.push(Route::new(route)))
    }

    fn workflow_concurrency(self, tasks: usize) -> Self {
        self.extend(|extension: &mut WorkflowExtension| extension.concurrency = tasks)
    }

    fn workflow_cache(self, runs: usize) -> Self {
        self.extend(|extension: &mut WorkflowExtension| extension.cached_runs = runs)
    }

    fn journal_limit(self, entries: u64) -> Self {
        self.extend(|extension: &mut WorkflowExtension| extension.journal_limit = Some(entries))
    }
}

/// The workflows and activities registered so far.
struct WorkflowExtension {
    programs: Programs,
    activities: Vec<RegisteredActivity>,
    routes: Vec<Result<Route, InvalidName>>,
    concurrency: usize,
    cached_runs: usize,
    journal_limit: Option<u64>,
}

impl Default for WorkflowExtension {
    fn default() -> Self {
        Self {
            programs: Programs::new(),
            activities: Vec::new(),
            routes: Vec::new(),
            concurrency: DEFAULT_CONCURRENCY,
            cached_runs: DEFAULT_CACHED_RUNS,
            journal_limit: None,
        }
    }
}

impl Extension for WorkflowExtension {
    fn install(self: Box<Self>, worker: WorkerBuilder) -> Result<WorkerBuilder, BuildError> {
        let Self { programs, activities, routes, concurrency, cached_runs: cache, journal_limit: limit } =
            *self;
        let routes: Vec<_> = routes.into_iter().collect::<Result<_, _>>()?;
        let (mut worker, mut local_activities) = (worker, HashMap::new());
        for activity in activities {
            let (kind, queue) = (activity.kind(), activity.queue);
            let code = (activity.bind)(worker.states())
                .map_err(|missing| missing.into_build_error(activity.name))?;
            local_activities.extend(kind.map(|kind| (kind, code.clone())));
            worker = worker.handle_untyped(activity.name, move |_, cx| code(cx));
            worker = serve_queue(worker, queue, DEFAULT_CONCURRENCY);
        }
        let names: HashSet<WorkflowName> = programs.iter().map(|program| program.name().clone()).collect();
        if names.is_empty() {
            return Ok(worker);
        }
        let (cache, payload_limit) = (Arc::new(ReplayerCache::new(cache)), worker.client().payload_limit());
        let handler =
            Arc::new(TaskHandler { programs, local_activities, cache, journal_limit: limit, payload_limit });
        for name in &names {
            worker = handler.clone().register_tasks(worker, name);
            for queue in task_queues(name, &routes) {
                worker = serve_queue(worker, &queue, concurrency);
            }
        }
        Ok(handler.register_internal_jobs(worker))
    }
}

fn serve_queue(worker: WorkerBuilder, queue: &str, concurrency: usize) -> WorkerBuilder {
    if worker.serves(queue) { worker } else { worker.queue(queue, concurrency) }
}

/// The queues of a workflow's tasks.
fn task_queues(workflow: &WorkflowName, routes: &[Route]) -> Vec<String> {
    let name = |route| workflow.queue(route).name.as_str().to_owned();
    if routes.is_empty() { vec![name(None)] } else { routes.iter().map(|route| name(Some(route))).collect() }
}

impl TaskHandler {
    fn register_tasks(self: Arc<Self>, worker: WorkerBuilder, workflow: &WorkflowName) -> WorkerBuilder {
        worker.handle_untyped(task_kind(workflow).as_str(), move |envelope, cx| {
            let handler = self.clone();
            async move { handler.run_task(&envelope, &cx).await }
        })
    }

    fn register_internal_jobs(self: Arc<Self>, worker: WorkerBuilder) -> WorkerBuilder {
        let handler = self.clone();
        let worker = worker.handle_untyped(REMOTE_COMMAND_KIND, |envelope, cx| async move {
            super::remote_command::run(&envelope, &cx).await
        });
        worker.handle_untyped(QUERY_KIND, move |envelope, cx| {
            let handler = handler.clone();
            async move { handler.query(&envelope, &cx).await }
        })
    }
}
