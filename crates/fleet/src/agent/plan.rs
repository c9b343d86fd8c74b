//! Decides what to start, what to drain and what to close, from what there is. No I/O.

use tidemill_core::fleet::Capacity;

/// What is to be kept of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// How many are to be ready for clients at any time.
    pub(super) spare: usize,
    /// How many there may be in all, not counting as many as `beyond` that are leaving.
    pub(super) most: usize,
    /// How many that are leaving may be there besides: one long session must not keep a successor from starting.
    pub(super) beyond: usize,
    /// How much one takes on.
    pub(super) room: Capacity,
}

/// One that there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) number: u64,
    /// The store knows it.
    pub(super) joined: bool,
    /// How many sessions it has; it has some if that is not known.
    pub(super) active: u32,
    /// How many it has had.
    pub(super) lifetime: u64,
    /// Somebody ordered it to drain.
    pub(super) ordered: bool,
    pub(super) leaving: Leaving,
}

/// How far one is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leaving {
    /// It stays.
    No,
    /// It is to drain.
    Draining,
    /// The store knows that, so it gets no session any more.
    Known,
    /// It is being closed.
    Closing,
}

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// How many to start.
    pub(super) start: usize,
    /// Which to drain.
    pub(super) drain: Vec<u64>,
    /// Which to close.
    pub(super) close: Vec<u64>,
}

/// One serves, one succeeds it, and a few more may be ordered away meanwhile.
const MAX_SERVERS: usize = 8;

/// So many servers may still have sessions that do not end. Beyond that the machine is in danger, not only the next client.
const MAX_LEAVING_SERVERS: usize = 56;

impl Wanted {
    /// What is to be kept of a server that clients share. One that its first session replaces is hardly shared: there are as
    /// many of those as sessions, so they are bounded as browsers for one session are, by `most`.
    pub(super) fn server(room: Capacity, most: usize) -> Self {
        let is_shared = room.lifetime == 0 || u64::from(room.lifetime) > u64::from(room.concurrent) + 1;
        let (most, beyond) = if is_shared { (MAX_SERVERS, MAX_LEAVING_SERVERS) } else { (most.max(1), 0) };
        Self { spare: 1, most, beyond, room }
    }

    /// What to do if `starting` more are on their way.
    pub(super) fn plan(&self, seen: &[Seen], starting: usize) -> Plan {
        let fresh = seen.iter().filter(|one| self.is_fresh(one));
        let (fresh, ready) = (fresh.clone().count(), fresh.filter(|one| one.joined).count());
        let leaving = seen.iter().filter(|one| one.leaving != Leaving::No).count();
        let total = seen.len() - leaving.min(self.beyond) + starting;
        let missing = self.spare.saturating_sub(fresh + starting);
        // Without a successor the last one stays, unless that is what keeps the successor from starting.
        let may_go = ready > 0 || total >= self.most;
        let which = |rule: &dyn Fn(&Seen) -> bool| {
            seen.iter().filter(|one| rule(one)).map(|one| one.number).collect()
        };
        Plan {
            start: missing.min(self.most.saturating_sub(total)),
            drain: which(&|one| one.leaving == Leaving::No && self.drains(one, ready)),
            close: which(&|one| self.closes(one, may_go)),
        }
    }

    /// Whether one can be counted on for new clients.
    fn is_fresh(&self, one: &Seen) -> bool {
        one.leaving == Leaving::No && !one.ordered && !self.is_ageing(one)
    }

    /// Whether one is so near its end that its successor should start.
    fn is_ageing(&self, one: &Seen) -> bool {
        let Capacity { concurrent, lifetime } = self.room;
        lifetime > 0 && one.lifetime > 0 && one.lifetime + u64::from(concurrent) >= u64::from(lifetime)
    }

    /// One that is used up takes nobody any more, and one that is ordered is given to nobody. One that is only ageing
    /// serves until its successor does.
    fn drains(&self, one: &Seen, ready: usize) -> bool {
        one.ordered || self.room.is_exhausted(one.lifetime) || (self.is_ageing(one) && ready > 0)
    }

    fn closes(&self, one: &Seen, may_go: bool) -> bool {
        if one.active > 0 || one.leaving == Leaving::Closing {
            return false;
        }
        // What one client has used is not kept for another.
        let is_used_up = self.room.lifetime == 1 && one.lifetime > 0;
        is_used_up || (one.leaving == Leaving::Known && may_go)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Wanted =
        Wanted { spare: 1, most: 3, beyond: 0, room: Capacity { concurrent: 1, lifetime: 1 } };
    const SHARED: Wanted =
        Wanted { spare: 1, most: 4, beyond: 6, room: Capacity { concurrent: 5, lifetime: 50 } };

    fn one(number: u64) -> Seen {
        Seen { number, joined: true, active: 0, lifetime: 0, ordered: false, leaving: Leaving::No }
    }

    #[test]
    fn a_leased_browser_has_its_successor_started_at_once() {
        let leased = Seen { active: 1, lifetime: 1, ..one(1) };
        let plan = ALONE.plan(&[leased], 0);
        assert_eq!(plan, Plan { start: 1, drain: vec![1], close: vec![] });
        assert_eq!(ALONE.plan(&[leased], 1).start, 0);
    }

    #[test]
    fn there_are_never_more_than_the_most() {
        let leased = |number| Seen { active: 1, lifetime: 1, ..one(number) };
        assert_eq!(ALONE.plan(&[leased(1), leased(2)], 0).start, 1);
        assert_eq!(ALONE.plan(&[leased(1), leased(2), leased(3)], 0).start, 0);
    }

    #[test]
    fn a_used_browser_is_closed_when_its_session_is_over() {
        let over = Seen { lifetime: 1, ..one(1) };
        assert_eq!(ALONE.plan(&[over], 1).close, [1]);
        assert!(ALONE.plan(&[Seen { leaving: Leaving::Closing, ..over }], 1).close.is_empty());
    }

    #[test]
    fn an_ageing_server_serves_until_its_successor_does() {
        let ageing = Seen { active: 2, lifetime: 45, ..one(1) };
        assert_eq!(SHARED.plan(&[ageing], 0), Plan { start: 1, ..Plan::default() });
        let coming = Seen { joined: false, ..one(2) };
        assert_eq!(SHARED.plan(&[ageing, coming], 0), Plan::default());
        assert_eq!(SHARED.plan(&[ageing, one(2)], 0), Plan { drain: vec![1], ..Plan::default() });
    }

    #[test]
    fn a_draining_server_is_closed_when_it_is_empty_and_replaced() {
        let draining = Seen { lifetime: 50, leaving: Leaving::Known, ..one(1) };
        assert!(SHARED.plan(&[draining], 1).close.is_empty());
        assert_eq!(SHARED.plan(&[draining, one(2)], 0).close, [1]);
        let busy = Seen { active: 1, ..draining };
        assert!(SHARED.plan(&[busy, one(2)], 0).close.is_empty());
        let unheard = Seen { leaving: Leaving::Draining, ..draining };
        assert!(SHARED.plan(&[unheard, one(2)], 0).close.is_empty());
    }

    #[test]
    fn servers_with_sessions_that_do_not_end_keep_no_successor_from_starting() {
        let long = |number| Seen { active: 1, lifetime: 50, leaving: Leaving::Known, ..one(number) };
        let seen: Vec<_> = (1..=6).map(long).collect();
        assert_eq!(SHARED.plan(&seen, 0), Plan { start: 1, ..Plan::default() });
        let too_many: Vec<_> = (1..=10).map(long).collect();
        assert_eq!(SHARED.plan(&too_many, 0).start, 0);
    }

    #[test]
    fn servers_for_one_session_each_are_never_more_than_the_most() {
        for lifetime in [1, 2] {
            let room = Capacity { concurrent: 1, lifetime };
            let leaving = |number| {
                let lifetime = u64::from(lifetime);
                Seen { active: 1, lifetime, leaving: Leaving::Known, ..one(number) }
            };
            let wanted = Wanted::server(room, 2);
            assert_eq!(wanted.plan(&[leaving(1)], 0).start, 1);
            assert_eq!(wanted.plan(&[leaving(1), leaving(2)], 0).start, 0);
            assert_eq!(Wanted::server(room, 0).plan(&[], 0).start, 1);
        }
        let shared = Wanted::server(Capacity { concurrent: 5, lifetime: 50 }, 2);
        assert_eq!((shared.most, shared.beyond), (MAX_SERVERS, MAX_LEAVING_SERVERS));
    }

    #[test]
    fn the_last_one_goes_first_if_there_is_no_room_for_another() {
        let narrow = Wanted { most: 1, ..ALONE };
        let ordered = Seen { ordered: true, leaving: Leaving::Known, ..one(1) };
        assert_eq!(narrow.plan(&[ordered], 0), Plan { start: 0, drain: vec![], close: vec![1] });
        assert_eq!(narrow.plan(&[], 0).start, 1);
    }
}
