//! A Redis server with a store without a namespace, its workers, and another program that only uses
//! Redis.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemill::workflow::Json;
use tidemill::workflow::RunWorkflows;
use tidemill::{
    Activity, Client, Ctx, Fail, Namespace, Report, Signal, Worker, WorkerBuilder, WorkerError, Workflow,
    WorkflowError,
};
use tidemill_testkit::servers::Redis;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const ORDERS: Workflow<u64, u64> = Workflow::new("orders").version("1.0.0");
pub(crate) const PROCESSING: Workflow<Value, String> = Workflow::new("order-processing").version("1.0.0");
/// Its task is running for as long as [`HOLD`] does.
pub(crate) const HELD: Workflow<u64, u64> = Workflow::new("held");
const CHARGE: Activity<u64, u64> = Activity::new("charge");
const HOLD: Activity<u64, u64> = Activity::new("hold");
pub(crate) const APPROVE: Signal<u64> = Signal::new("approve");

const FOR_EVER: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Approvals that an order needs.
pub(crate) const APPROVALS: u64 = 3;

async fn orders(ctx: Ctx, amount: u64) -> Result<u64, WorkflowError> {
    let mut total = ctx.activity(&CHARGE, amount).await?;
    let approvals = ctx.signals(&APPROVE);
    for _ in 0..APPROVALS {
        total += tidemill::select! {
            approved = approvals.recv() => approved?,
            _ = ctx.sleep(HOUR) => return Ok(0),
        };
    }
    Ok(total)
}

async fn processing(_: Ctx, order: Value) -> Result<String, WorkflowError> {
    Ok(format!("{} for {}", order["orderId"].as_str().unwrap_or("nothing"), order["amount"]))
}

async fn held(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    Ok(ctx.local(&HOLD, n).timeout(HOUR).await?)
}

pub(crate) struct World {
    redis: Redis,
    pub(crate) client: Client,
    program: Mutex<redis::Connection>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// With parameters in the store's URL.
    pub(crate) async fn with(parameters: &str) -> Self {
        let redis = Redis::start().unwrap();
        let connector = tidemill::ClientBuilder::new(&format!("{}{parameters}", redis.url()));
        let connector = connector.namespace(Namespace::new("").unwrap()).group(None, "aiki-workers");
        let program = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
        Self { client: connector.connect().await.unwrap(), program: Mutex::new(program), redis }
    }

    fn program(&self) -> MutexGuard<'_, redis::Connection> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command as it is printed, and returns the answer as JSON.
    pub(crate) fn ask(&self, command: &str) -> Value {
        self.ask_words(&command.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn ask_words(&self, words: &[&str]) -> Value {
        let answer = redis::cmd(words[0]).arg(&words[1..]).query(&mut *self.program());
        shown(answer.unwrap_or_else(|error| panic!("{words:?}: {error}")))
    }

    /// Publishes a run message, as a server of the other system does.
    pub(crate) fn publish(&self, stream: &str, message: &Value) -> String {
        let id = self.ask_words(&["XADD", stream, "*", "data", &message.to_string()]);
        id.as_str().unwrap().to_owned()
    }

    /// All commands that the server receives from now on, one per line.
    pub(crate) fn monitor(&self) -> impl Iterator<Item = String> + use<> {
        use std::io::{BufRead, BufReader, Write};
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", self.redis.port())).unwrap();
        socket.set_read_timeout(Some(FOR_EVER)).unwrap();
        socket.write_all(b"MONITOR\r\n").unwrap();
        BufReader::new(socket).lines().map(|line| line.unwrap())
    }

    /// A worker with only the three streams of its workflows.
    pub(crate) fn worker_of_workflows(&self) -> WorkerBuilder {
        let worker = Worker::builder(&self.client).workflow(&ORDERS, orders);
        worker.workflow(&PROCESSING, processing).workflow(&HELD, held)
    }

    /// A worker with the workflows and their activities. Handlers that reach [`HOLD`] wait there
    /// for the semaphore.
    pub(crate) fn worker(&self, gate: &'static Semaphore) -> WorkerBuilder {
        let hold = move |n: u64| async move {
            gate.acquire().await.map_err(|closed| Fail::dead("closed", closed.to_string()))?.forget();
            Ok::<_, Fail>(n)
        };
        self.worker_of_workflows().activity(&CHARGE, async |n: u64| Ok::<_, Fail>(n)).activity(&HOLD, hold)
    }

    pub(crate) fn start(&self) -> Working {
        Working::start(self.worker(open_gate()))
    }

    /// Runs a worker until its queues have consumer groups.
    pub(crate) async fn prepare(&self) {
        let working = self.start();
        self.until("the groups", || {
            ["orders", "order-processing", "held"].into_iter().all(|name| {
                self.ask(&format!("EXISTS workflow:{name}")) == 1
                    && !self.ask(&format!("XINFO GROUPS workflow:{name}")).as_array().unwrap().is_empty()
            })
        })
        .await;
        working.stop().await;
    }

    pub(crate) async fn until(&self, what: &str, is: impl FnMut() -> bool) {
        let (begun, mut is) = (Instant::now(), is);
        while !is() {
            assert!(begun.elapsed() < FOR_EVER, "{what} took longer than {FOR_EVER:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The state of a run.
    pub(crate) fn instance(&self, run: &str) -> Value {
        serde_json::from_str(self.ask(&format!("GET instances-{run}")).as_str().unwrap()).unwrap()
    }

    /// The only entry of a stream: its id and its message.
    pub(crate) fn only(&self, stream: &str) -> (String, Value) {
        let entries = self.ask(&format!("XRANGE {stream} - +"));
        assert_eq!(entries.as_array().unwrap().len(), 1, "{entries}");
        message(&entries[0])
    }
}

/// A semaphore that is open.
pub(crate) fn open_gate() -> &'static Semaphore {
    Box::leak(Box::new(Semaphore::new(Semaphore::MAX_PERMITS)))
}

/// A semaphore that is closed.
pub(crate) fn closed_gate() -> &'static Semaphore {
    Box::leak(Box::new(Semaphore::new(0)))
}

/// A worker in the background.
pub(crate) struct Working {
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Working {
    pub(crate) fn start(worker: WorkerBuilder) -> Self {
        let stop = CancellationToken::new();
        Self { run: tokio::spawn(worker.run_until(stop.clone().cancelled_owned())), stop }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        patiently(self.run).await.unwrap().unwrap();
    }

    /// Aborts it: nothing is handed back.
    pub(crate) async fn die(self) {
        self.run.abort();
        assert!(patiently(self.run).await.is_err());
    }
}

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOR_EVER, future).await.unwrap()
}

/// An entry's id and the JSON in its field `data`.
pub(crate) fn message(entry: &Value) -> (String, Value) {
    assert_eq!(entry[1][0], "data", "{entry}");
    let message = serde_json::from_str(entry[1][1].as_str().unwrap()).unwrap();
    (entry[0].as_str().unwrap().to_owned(), message)
}

/// One answer of `XINFO`, by name.
pub(crate) fn fact<'a>(facts: &'a Value, name: &str) -> &'a Value {
    let facts = facts.as_array().unwrap();
    let at = facts.iter().position(|fact| *fact == name).unwrap_or_else(|| panic!("no {name}: {facts:?}"));
    &facts[at + 1]
}

fn shown(value: redis::Value) -> Value {
    match value {
        redis::Value::Nil => Value::Null,
        redis::Value::Int(n) => json!(n),
        redis::Value::BulkString(bytes) => json!(String::from_utf8(bytes).unwrap()),
        redis::Value::SimpleString(text) => json!(text),
        redis::Value::Okay => json!("OK"),
        redis::Value::Array(items) => items.into_iter().map(shown).collect(),
        other => panic!("not an answer of this protocol: {other:?}"),
    }
}

/// A number as the journal stores it.
pub(crate) fn number(n: u64) -> Json {
    Json::from_value(&n).unwrap()
}
