//! Tests of workflows: in memory, in virtual time, with closures as activities.
//!
//! [`TestWorld`] simulates a workflow and its children up to their end. [`replay_every_prefix`]
//! then replays the journals from every prefix, which covers a crash at any moment. [`replay_dir`]
//! replays exported journals against the current code: keep some of each version in your
//! repository.
//!
//! ```
//! use std::time::Duration;
//! use tidemill_workflow::testing::TestWorld;
//! use tidemill_workflow::{Activity, Ctx, Workflow, WorkflowError};
//!
//! const GREET: Activity<String, String> = Activity::new("greet");
//! const HELLO: Workflow<String, String> = Workflow::new("hello");
//!
//! async fn hello(ctx: Ctx, name: String) -> Result<String, WorkflowError> {
//!     ctx.sleep(Duration::from_secs(86_400)).await?;
//!     Ok(ctx.activity(&GREET, name).await?)
//! }
//!
//! let world = TestWorld::new()
//!     .workflow(&HELLO, hello)
//!     .activity(&GREET, |name| Ok::<_, String>(format!("hello, {name}")));
//! let ended = world.run(&HELLO, "Ada".to_owned()).unwrap();
//! assert_eq!(ended.result(), Ok("hello, Ada".to_owned()));
//! ```

mod apply_commit;
mod mock;
mod outcome;
mod replay_dir;
mod replay_prefixes;
mod run;
mod schedule;
mod simulation;
mod world;

pub use outcome::{NoResult, TestOutcome};
pub use replay_dir::{ReplayFailed, replay_dir};
pub use replay_prefixes::{ReplayError, replay_every_prefix};
pub use world::TestWorld;
