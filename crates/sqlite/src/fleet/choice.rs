//! Which member a session gets. Counting sessions is what costs among many members, so they are looked at from the most used
//! on, only until one is found that none can beat, and full ones are remembered as such.

use rusqlite::{Row, params};
use tidemill_core::fleet::{Capacity, WorkerKey};
use tidemill_core::store::fleet::LeaseParams;

use super::row::{member_id, small};
use super::{first, run};
use crate::call::Tx;
use crate::error::Failure;

/// Which members there are to choose from.
pub(super) enum Among {
    /// Any.
    All,
    /// These, as they are called.
    These(Vec<String>),
}

/// What has been found so far.
#[derive(Default)]
struct Choice {
    /// The best below the margin, its lifetime and how many sessions it has.
    best: Option<(WorkerKey, i64, u32)>,
    /// The first beyond it.
    beyond: Option<WorkerKey>,
    /// Those that have no room.
    full: Vec<WorkerKey>,
}

/// The best of those that have room, among so many that live.
pub(super) fn choose(
    tx: &Tx<'_>,
    lease: &LeaseParams,
    among: &Among,
    workers: u32,
) -> Result<Option<WorkerKey>, Failure> {
    let only = match among {
        Among::All => None,
        Among::These(members) if members.is_empty() => return Ok(None),
        Among::These(members) => Some(spaced(members)),
    };
    let mut choose = tx.connection.prepare_cached(include_str!("../../sql/members/choose.sql"))?;
    let (offers, refused) = (spaced(&lease.offers), spaced(&lease.rejected));
    let mut rows = choose.query(params![lease.kind.as_str(), offers, refused, tx.now.0, only])?;
    let mut choice = Choice::default();
    while let Some(row) = rows.next()? {
        if choice.is_made(row.get(3)?) {
            break;
        }
        choice.look_at(tx, row, workers)?;
    }
    drop(rows);
    for member in &choice.full {
        run(tx, include_str!("../../sql/members/full.sql"), params![member.to_string(), tx.now.0])?;
    }
    Ok(choice.best.map(|(member, ..)| member).or(choice.beyond))
}

impl Choice {
    /// Whether none that has had so many sessions, or fewer, can be better.
    fn is_made(&self, lifetime: i64) -> bool {
        self.best.as_ref().is_some_and(|(_, most, active)| *active == 0 || lifetime < *most)
    }

    fn look_at(&mut self, tx: &Tx<'_>, row: &Row<'_>, workers: u32) -> Result<(), Failure> {
        let (member, lifetime) = (member_id(row, 0)?, row.get::<_, i64>(3)?);
        let room = Capacity { concurrent: small(row, 1)?, lifetime: small(row, 2)? };
        let (active, worn) = (active(tx, &member)?, u64::try_from(lifetime).unwrap_or(0));
        if !room.is_free(active, worn) {
            self.full.push(member);
        } else if !room.is_preferred(worn, workers) {
            self.beyond.get_or_insert(member);
        } else if self.best.as_ref().is_none_or(|(.., fewest)| active < *fewest) {
            self.best = Some((member, lifetime, active));
        }
        Ok(())
    }
}

fn active(tx: &Tx<'_>, member: &WorkerKey) -> Result<u32, Failure> {
    let count = include_str!("../../sql/sessions/count.sql");
    Ok(first(tx, count, params![member.to_string(), tx.now.0], |row| small(row, 0))?.unwrap_or(0))
}

/// How many members of the kind and offers have beaten recently.
#[derive(Default)]
pub(super) struct Workers {
    /// Those that are available: the margin of a choice depends on their number.
    pub(super) available: u32,
    /// All of them: a client can wait for one that drains, because its owner replaces it.
    pub(super) all: u32,
}

pub(super) fn workers(tx: &Tx<'_>, lease: &LeaseParams) -> Result<Workers, Failure> {
    let count = include_str!("../../sql/members/count.sql");
    let key = params![lease.kind.as_str(), spaced(&lease.offers), tx.now.0];
    let counted =
        first(tx, count, key, |row| Ok(Workers { available: small(row, 0)?, all: small(row, 1)? }))?;
    Ok(counted.unwrap_or_default())
}

/// A list of names as the statements take it: none of them holds a space.
pub(super) fn spaced<T: ToString>(names: &[T]) -> String {
    names.iter().fold(String::from(" "), |list, name| list + &name.to_string() + " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_list_has_a_space_on_either_side() {
        let members: Vec<WorkerKey> = ["a:b", "c:d"].map(|id| id.parse().unwrap()).into();
        assert_eq!(spaced(&members), " a:b c:d ");
        assert_eq!(spaced::<WorkerKey>(&[]), " ");
    }
}
