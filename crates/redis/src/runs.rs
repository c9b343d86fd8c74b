//! Runs: their state, journals, tasks and alarms. A run and all it has lie in one shard, so every verb is one script there.

mod commit;
mod deliver;
mod effects;
mod fire;
mod instance;
mod list;
mod look;
mod prune;
mod start;
mod terminate;

pub(crate) use commit::is_of_runs;
use tidemill_core::store::runs::{Alarm, MAX_NEWS, MAX_NEWS_BYTES, REMOVED};

use crate::jobs::CHUNK;
use crate::link::Call;
use crate::script::Script;
use crate::store::RedisStore;

/// How much one script is given at most, about, in bytes: it keeps the server from everything else.
const LOAD: usize = 4 << 20;

/// What an argument costs beside its bytes, about.
const OVERHEAD: usize = 256;

impl RedisStore {
    /// A call of a script about runs. More arguments follow.
    pub(crate) fn call_on_runs<'a>(&self, script: &'a Script, shard: u16) -> Call<'a> {
        let mut call = Call::new(script, &self.keys.home(shard)).arg(self.keys.channel());
        self.push_world(&mut call);
        call
    }

    /// The arguments of a world, as `lua/run.lua` reads them.
    pub(crate) fn push_world(&self, call: &mut Call<'_>) {
        let options = self.link.options();
        call.push(MAX_NEWS);
        call.push(MAX_NEWS_BYTES);
        call.push(Alarm::ALL.map(Alarm::letter).concat());
        call.push(&options.default_group);
        call.push(options.groups.len());
        for (queue, group) in &options.groups {
            call.push(queue.as_str());
            call.push(group);
        }
    }
}

/// What a run is told of an activity that was taken away.
pub(crate) fn push_removal(call: &mut Call<'_>) {
    call.push(REMOVED.0);
    call.push(REMOVED.1);
}

/// Splits `members` into parts that one script can be given, in order. `weigh` says about how many bytes a member has.
pub(crate) fn portions(members: Vec<usize>, weigh: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let (mut portions, mut load) = (Vec::<Vec<usize>>::new(), 0);
    for member in members {
        let weight = weigh(member) + OVERHEAD;
        load += weight;
        match portions.last_mut() {
            Some(last) if load <= LOAD && last.len() < CHUNK => last.push(member),
            _ => {
                load = weight;
                portions.push(vec![member]);
            }
        }
    }
    portions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_given_what_it_can_carry_and_one_thing_however_heavy() {
        let of = |weight: usize, count: usize| portions((0..count).collect(), |_| weight);
        assert_eq!(of(0, CHUNK + 1).len(), 2);
        assert_eq!(of(2 * LOAD, 3), [[0], [1], [2]]);
        assert_eq!(of(0, 3), [[0, 1, 2]]);
        assert!(of(0, 0).is_empty());
    }
}
