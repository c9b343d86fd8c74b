//! The end of a child reaches its parent like the end of an activity: in as many round trips, and
//! as fast.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidemill::workflow::{ChildError, RunWorkflows, StartWorkflows};
use tidemill::{
    Activity, ActivityError, Client, Ctx, Fail, RunHandle, Signal, State, Worker, Workflow, WorkflowError,
};
use tokio::sync::Semaphore;

use crate::world::{Background, patiently, quantile, stores, until};

const PARENT: Workflow<End, String> = Workflow::new("parent");
const CHILD: Workflow<(), ()> = Workflow::new("child");
const HELD: Activity<(), ()> = Activity::new("held");
const LEAVE: Signal<bool> = Signal::new("leave");

/// What ends, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum End {
    Activity,
    Done,
    Failed,
    Cancelled,
}

const ENDS: [End; 4] = [End::Activity, End::Done, End::Failed, End::Cancelled];

/// The cheapest of this many rounds counts: maintenance of the worker adds round trips to some.
const ROUNDS: usize = 8;

/// Round trips of an end: its own commit, the parent's claim and commit, and the read of the
/// result. A child needs two more: the request to end, and its last task.
const MOST: [u64; 4] = [4, 6, 6, 6];

/// Rounds of a measurement, and warm-up rounds.
const MEASURED: usize = 200;
const WARM_UP: usize = 10;

/// The time of an end, and the delay until the parent received it.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<(Option<Instant>, Duration)>>);

impl Watch {
    fn ended(&self) {
        self.0.lock().unwrap().0 = Some(Instant::now());
    }

    fn heard(&self) {
        let mut watch = self.0.lock().unwrap();
        watch.1 = watch.0.take().map(|ended| ended.elapsed()).unwrap_or_default();
    }

    fn took(&self) -> Duration {
        self.0.lock().unwrap().1
    }
}

/// A barrier that holds a handler until it is opened.
#[derive(Clone)]
struct Gate(Arc<Semaphore>);

struct Scene {
    client: Client,
    worker: Background,
    gate: Gate,
    watch: Watch,
}

impl Scene {
    fn new(client: Client) -> Self {
        let (gate, watch) = (Gate(Arc::new(Semaphore::new(0))), Watch::default());
        let (of_parent, of_child) = (watch.clone(), watch.clone());
        let worker = Worker::builder(&client)
            .state(gate.clone())
            .state(watch.clone())
            .activity(&HELD, held)
            .workflow(&CHILD, move |ctx, ()| child(ctx, of_child.clone()))
            .workflow(&PARENT, move |ctx, end| parent(ctx, end, of_parent.clone()));
        Self { worker: Background::run(worker), client, gate, watch }
    }

    /// A parent that waits for an end that the test controls.
    async fn waiting(&self, end: End) -> RunHandle<String> {
        let run = self.client.workflow(&PARENT, end).start().await.unwrap();
        let (store, child) = (self.client.store(), run.id().child(1));
        until(async || match end {
            End::Activity => {
                store.get_job(&run.id().part(1)).await.unwrap().is_some_and(|job| job.held_by.is_some())
            }
            _ => store.get_run(&child).await.unwrap().is_some_and(|info| info.cursor > 0),
        })
        .await;
        run
    }

    async fn let_end(&self, run: &RunHandle<String>, end: End) {
        let child = self.client.run_handle(&CHILD, run.id().child(1));
        match end {
            End::Activity => self.gate.0.add_permits(1),
            End::Done => child.signal(&LEAVE, &true).await.unwrap(),
            End::Failed => child.signal(&LEAVE, &false).await.unwrap(),
            End::Cancelled => child.cancel().await.unwrap(),
        }
    }

    /// Ends it, and returns the round trips until the result was read.
    async fn trips(&self, end: End) -> u64 {
        let run = self.waiting(end).await;
        let waits = run.clone();
        let result = tokio::spawn(async move { waits.wait().await });
        tokio::task::yield_now().await;
        let before = self.client.store().commands();
        self.let_end(&run, end).await;
        assert_eq!(patiently(result).await.unwrap().unwrap(), format!("{end:?}"));
        self.client.store().commands() - before
    }
}

async fn held(_: (), State(Gate(gate)): State<Gate>, State(watch): State<Watch>) -> Result<(), Fail> {
    gate.acquire().await.map_err(Fail::from)?.forget();
    watch.ended();
    Ok(())
}

async fn child(ctx: Ctx, watch: Watch) -> Result<(), WorkflowError> {
    let left = ctx.signals(&LEAVE).recv().await;
    watch.ended();
    if left? { Ok(()) } else { Err(WorkflowError::failed("told to")) }
}

async fn parent(ctx: Ctx, end: End, watch: Watch) -> Result<String, WorkflowError> {
    let heard = match end {
        End::Activity => ctx.activity(&HELD, ()).await.map(|()| End::Activity).map_err(unexpected)?,
        _ => match ctx.child(&CHILD, ()).await {
            Ok(()) => End::Done,
            Err(ChildError::Failed { .. }) => End::Failed,
            Err(ChildError::Cancelled { .. }) => End::Cancelled,
            Err(error) => return Err(error.into()),
        },
    };
    watch.heard();
    Ok(format!("{heard:?}"))
}

fn unexpected(error: ActivityError) -> WorkflowError {
    error.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_end_is_heard_in_as_many_trips_as_an_activitys() {
    for (store, client) in stores("children").await {
        let scene = Scene::new(client);
        let mut least = ENDS.map(|_| u64::MAX);
        for _ in 0..ROUNDS {
            for (end, least) in ENDS.into_iter().zip(&mut least) {
                *least = (*least).min(scene.trips(end).await);
            }
        }
        println!("until an end is heard on {store}: {least:?} trips");
        // Its wake-ups for other processes have their own schedule, and one of them may fall into
        // the measurement.
        let beside = u64::from(store == "PostgreSQL");
        let enough = least.iter().zip(MOST).all(|(trips, most)| *trips <= most + beside);
        assert!(enough, "{least:?} on {store}");
        scene.worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn how_fast_an_end_is_heard() {
    for (store, client) in stores("hearing").await {
        let scene = Scene::new(client);
        let mut times = ENDS.map(|_| Vec::new());
        for round in 0..WARM_UP + MEASURED {
            for (end, times) in ENDS.into_iter().zip(&mut times) {
                scene.trips(end).await;
                if round >= WARM_UP {
                    times.push(scene.watch.took());
                }
            }
        }
        let medians = times.each_mut().map(|times| quantile(times, 0.5));
        let [activity, done, failed, cancelled] = medians.map(|median| median.as_secs_f64());
        println!(
            "an end is heard on {store} after p50 {medians:.1?}; by an activity's: done {:.2}, failed {:.2}, cancelled {:.2}",
            done / activity,
            failed / activity,
            cancelled / activity,
        );
        scene.worker.stop().await;
    }
}
