//! Ending claims of tasks, and of jobs that runs wait for: one statement, however many runs there are.

use tidemill_core::Error;
use tidemill_core::wake::Wake;

use super::batch::{Act, Batch};
use crate::Inner;
use crate::jobs::{Ended, Key, keys};
use crate::sql::SETTLE_RUNS;
use crate::voice::Lent;

impl Inner {
    /// Ends claims, which come in the order of their numbers, each with its place among the caller's changes.
    pub(crate) async fn settle_runs(
        &self,
        claims: &[(Key, (usize, Act<'_>))],
        expired: bool,
    ) -> Result<Ended, Error> {
        let (tokens, ids) = keys(claims);
        let mut acts: Vec<(usize, i32, Act<'_>)> =
            (1..).zip(claims).map(|(claim, (_, (at, act)))| (*at, claim, *act)).collect();
        acts.sort_unstable_by_key(|(at, ..)| *at);
        let mut batch = Batch::default();
        for (_, claim, act) in acts {
            batch.add(self, claim, act).await?;
        }
        let voice = self.voice.as_ref().and_then(|voice| voice.lend(batch.ends()));
        let channel = voice.as_ref().map(Lent::channel);
        let mut params = batch.params([&tokens, &ids, &expired]);
        params.push(&channel);
        let answer = self.pool.query(&SETTLE_RUNS, &params).await;
        match (answer, voice) {
            (Ok(rows), None) => Ended::read(&rows),
            (Ok(rows), Some(_)) => {
                let mut ended = Ended::read(&rows)?;
                ended.woken.retain(|word| !self.is_told(word));
                Ok(ended)
            }
            (Err(error), voice) => {
                voice.into_iter().for_each(Lent::failed);
                Err(error)
            }
        }
    }

    /// Whether the commit has told the other processes of this already; then it is told here.
    fn is_told(&self, word: &str) -> bool {
        match word.parse() {
            Ok(wake @ Wake::Finished(_)) => {
                self.bus.dispatch_local(wake);
                true
            }
            _ => false,
        }
    }
}
