//! A worker that was stopped for longer than its lease cannot change a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::runs::{AfterCommit, CommitParams};
use tidemill_core::store::{ClaimParams, SettleParams, Verdict};
use tidemill_core::workflow::{self, CommitId, Entry};
use tidemill_core::{HolderId, Timestamp};
use tidemill_sqlite::SqliteOptions;
use tidemill_worker::{Fail, State, Worker};
use tidemill_workflow::{Activity, Ctx, RunWorkflows};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::world::{Background, GO, MAIN, World, ms, patiently, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_commit_of_a_stale_worker_has_no_effect() {
    let world = World::new().await;
    let run = world.start().await;
    let info = world.info(run.id()).await;
    let slow = HolderId::from_process("slow", 1, 1);
    let claim = ClaimParams::now(&info.queue, &slow, ms(30), 1);
    let stale = world.store().claim(claim).await.unwrap().remove(0);
    tokio::time::sleep(ms(40)).await;
    let worker = world.worker().lease(ms(150));
    let worker = Background::run(worker.workflow(&MAIN, async |_: Ctx, n: u64| Ok(n + 6)));
    assert_eq!(patiently(run.wait()).await.unwrap(), 7);
    let entry = Entry::commit(
        Timestamp(1),
        workflow::Commit { upto: 1, commands: vec![], end: None, awaits: vec![] },
    );
    let commit = CommitParams {
        run: run.id().clone(),
        id: CommitId::generate(),
        cursor: 0,
        upto: 1,
        entry: entry.write(),
        effects: Vec::new(),
        then: AfterCommit::Running,
    };
    let late = Settlement { lease: stale.lease, change: Change::Commit(Box::new(commit)) };
    assert_eq!(world.store().settle(SettleParams::current(&[late])).await.unwrap(), [Verdict::LeaseLost]);
    assert_eq!(world.info(run.id()).await.length, 2);
    worker.stop().await;
}

const DRAW: Activity<(), u64> = Activity::new("draw");

/// Blocks the first caller, and its whole runtime.
#[derive(Clone)]
struct Urn {
    drawn: Arc<AtomicU64>,
    begun: Arc<Notify>,
    held: Arc<Mutex<mpsc::Receiver<()>>>,
}

async fn draw((): (), State(urn): State<Urn>) -> Result<u64, Fail> {
    let drawn = urn.drawn.fetch_add(1, Ordering::SeqCst);
    if drawn == 0 {
        urn.begun.notify_one();
        urn.held.lock().unwrap().recv().unwrap();
    }
    Ok(drawn)
}

/// A worker stops in its task for longer than its lease, and another one continues the run. When
/// the first resumes, it has reached the same position with different commands. Its commit is
/// rejected, and it must not continue from its cache.
#[tokio::test(flavor = "multi_thread")]
async fn a_replayer_whose_commit_was_rejected_is_never_used_again() {
    let (release, held) = mpsc::channel();
    let (drawn, begun) = (Arc::default(), Arc::new(Notify::new()));
    let urn = Urn { drawn, begun: begun.clone(), held: Arc::new(Mutex::new(held)) };
    let directory = tempfile::tempdir().unwrap();
    let file = || SqliteOptions::file(directory.path().join("runs.db"));
    // Each has its own store, as in its own process.
    let (world, elsewhere) = (World::on(file()).await, World::on(file()).await);
    let worker = |world: &World| {
        let worker = Worker::builder(&world.client).state(urn.clone()).lease(ms(150)).activity(&DRAW, draw);
        worker.workflow(&MAIN, async |ctx: Ctx, _: u64| {
            let drawn = ctx.local(&DRAW, ()).await?;
            Ok(drawn * 10 + ctx.signals(&GO).recv().await?)
        })
    };
    let (stalls, stop) = (worker(&elsewhere), CancellationToken::new());
    let stopped = stop.clone();
    let stalling = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(stalls.run_until(stopped.cancelled())).unwrap()
    });
    let run = world.start().await;
    patiently(begun.notified()).await;
    let other = Background::run(worker(&world));
    until(async || (world.info(run.id()).await.cursor == 1).then_some(())).await;
    other.stop().await;
    release.send(()).unwrap();
    run.signal(&GO, &5).await.unwrap();
    assert_eq!(patiently(run.wait()).await.unwrap(), 15);
    stop.cancel();
    let report = stalling.join().unwrap();
    assert_eq!(report.total.lost, 1, "{report:?}");
}
