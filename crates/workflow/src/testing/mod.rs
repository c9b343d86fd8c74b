//! Testing workflows: in memory, in virtual time, against activities that are closures.
//!
//! [`TestWorld`] runs a workflow with its children to its end in an instant. Its journals can then be replayed from
//! every prefix ([`replay_every_prefix`]), which is what a crash at any moment comes to. [`replay_dir`] replays
//! journals that were exported before against the code of today: keep some of each version in your repository.
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

mod agenda;
mod directory;
mod ended;
mod mock;
mod obey;
mod play;
mod prefixes;
mod run;
mod world;

pub use directory::{ReplayFailed, replay_dir};
pub use ended::{Ended, NoResult};
pub use prefixes::{ReplayError, replay_every_prefix};
pub use world::TestWorld;
