//! A worker in the test's own process, on the store of the place where the binary is run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill::workflow::RunWorkflows;
use tidemill::workflow::{Program, Programs};
use tidemill::{
    Activity, Ctx, Fail, Query, Report, Signal, Update, Worker, WorkerBuilder, WorkerError, Workflow,
    WorkflowError,
};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::place::Place;

const CHARGE: Activity<u64, String> = Activity::new("charge");
const NOTHING: Activity<u64, String> = Activity::new("nothing");
const APPROVE: Signal<String> = Signal::new("approve");
const STATUS: Query<(), String> = Query::new("status");
const LIMIT: Update<u64, u64> = Update::new("set_limit");
const ORDER: Workflow<u64, String> = Workflow::new("order").version("1.0.0");
const STEPS: Workflow<u64, u64> = Workflow::new("steps");

/// Charges, and waits for an approval. Its limit can be raised meanwhile, never lowered.
async fn order(ctx: Ctx, cents: u64) -> Result<String, WorkflowError> {
    let status = Arc::new(Mutex::new("charging".to_owned()));
    let seen = status.clone();
    ctx.on_query(&STATUS, move |()| seen.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let receipt = ctx.activity(&CHARGE, cents).await?;
    *status.lock().unwrap_or_else(PoisonError::into_inner) = "waiting for approval".to_owned();
    ctx.set_attribute("city", "Kyiv");
    approved(&ctx, &receipt).await
}

/// The same order under code that was changed without a thought for runs that are under way.
async fn hasty(ctx: Ctx, _: u64) -> Result<String, WorkflowError> {
    ctx.sleep(Duration::from_secs(3600)).await?;
    Ok("never".to_owned())
}

async fn approved(ctx: &Ctx, receipt: &str) -> Result<String, WorkflowError> {
    let (approvals, limits, mut limit) = (ctx.signals(&APPROVE), ctx.updates(&LIMIT), 0);
    loop {
        tidemill::select! {
            by = approvals.recv() => return Ok(format!("{receipt}, approved by {}", by?)),
            request = limits.recv() => {
                let request = request?;
                if request.input < limit {
                    request.reject(format_args!("the limit is {limit} already"));
                } else {
                    limit = request.input;
                    request.reply(&limit);
                }
            },
        }
    }
}

/// Two activities in a row, so that there is a commit to go back to.
async fn steps(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    let first = ctx.activity(&CHARGE, n).await?;
    let second = ctx.activity(&CHARGE, n + 1).await?;
    if n == 13 {
        return Err(WorkflowError::failed("thirteen brings bad luck"));
    }
    Ok((first.len() + second.len()) as u64)
}

async fn charge(cents: u64) -> Result<String, Fail> {
    Ok(format!("receipt for {cents}"))
}

/// The code of today, for tests that replay.
pub(crate) fn programs() -> Programs {
    let mut programs = Programs::new();
    programs.add(Program::new(&ORDER, order));
    programs.add(Program::new(&STEPS, steps));
    programs
}

/// A worker that is running.
pub(crate) struct Crew {
    runtime: Runtime,
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Crew {
    pub(crate) fn start(place: &Place) -> Self {
        let workflows = |worker: WorkerBuilder| worker.workflow(&ORDER, order).workflow(&STEPS, steps);
        Self::with(place, workflows)
    }

    /// One with the hasty code.
    pub(crate) fn hasty(place: &Place) -> Self {
        Self::with(place, |worker| worker.workflow(&ORDER, hasty))
    }

    /// One that serves the queue of activities and does not know a single one that an order needs.
    pub(crate) fn clueless(place: &Place) -> Self {
        Self::open(place, |worker| worker.workflow(&ORDER, order).activity(&NOTHING, charge))
    }

    fn with(place: &Place, workflows: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Self {
        Self::open(place, |worker| workflows(worker).activity(&CHARGE, charge))
    }

    fn open(place: &Place, teach: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Self {
        let runtime = Runtime::new().unwrap();
        let store = format!("sqlite:{}", place.path("tidemill.db").display());
        let client = runtime.block_on(tidemill::connect(&store)).unwrap();
        let worker = teach(Worker::builder(&client));
        let stop = CancellationToken::new();
        let run = runtime.spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { runtime, stop, run }
    }

    pub(crate) fn stop(self) {
        self.stop.cancel();
        self.runtime.block_on(self.run).unwrap().unwrap();
    }
}
