//! The plan of a pool: what to start, drain and close, decided from the browsers' status. No I/O.

use tidemill_core::fleet::Capacity;

/// The target size of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolTarget {
    /// How many to keep ready for clients.
    pub(super) spare: usize,
    /// The most to run, without up to `max_extra_draining` that are draining.
    pub(super) max: usize,
    /// How many draining browsers do not count towards `max`: one long session must not keep a
    /// successor from starting.
    pub(super) max_extra_draining: usize,
    /// How many sessions one takes.
    pub(super) capacity: Capacity,
}

/// The status of one browser.
#[derive(Debug, Clone, Copy)]
pub(super) struct BrowserStatus {
    pub(super) number: u64,
    /// The store has registered it.
    pub(super) joined: bool,
    /// How many sessions it has; at least one while the count is uncertain.
    pub(super) active: u32,
    /// How many sessions it has had.
    pub(super) lifetime: u64,
    /// An operator ordered it to drain.
    pub(super) drain_ordered: bool,
    pub(super) phase: DrainPhase,
}

/// How far the drain of a browser has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DrainPhase {
    /// It takes new sessions.
    Serving,
    /// It is to drain.
    Draining,
    /// The store knows that it drains and gives it no more sessions.
    Acknowledged,
    /// It is being closed.
    Closing,
}

/// What to do with a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PoolPlan {
    /// How many to start.
    pub(super) start: usize,
    /// Which browsers to drain.
    pub(super) drain: Vec<u64>,
    /// Which browsers to close.
    pub(super) close: Vec<u64>,
}

/// Room for the serving one, its successor, and a few that were ordered to drain meanwhile.
const MAX_SERVERS: usize = 8;

/// How many servers may drain sessions that do not end. More would endanger the whole machine.
const MAX_DRAINING_SERVERS: usize = 56;

impl PoolTarget {
    /// The target of a shared server. A server that its first session replaces is hardly shared:
    /// there are as many as sessions, so `most` bounds them like single-session browsers.
    pub(super) fn server(capacity: Capacity, max: usize) -> Self {
        let is_shared =
            capacity.lifetime == 0 || u64::from(capacity.lifetime) > u64::from(capacity.concurrent) + 1;
        let (max, beyond) = if is_shared { (MAX_SERVERS, MAX_DRAINING_SERVERS) } else { (max.max(1), 0) };
        Self { spare: 1, max, max_extra_draining: beyond, capacity }
    }

    /// Decides what to do while `starting` more are on their way.
    pub(super) fn plan(&self, browsers: &[BrowserStatus], starting: usize) -> PoolPlan {
        let available = browsers.iter().filter(|browser| self.is_available(browser));
        let (available, ready) =
            (available.clone().count(), available.filter(|browser| browser.joined).count());
        let leaving = browsers.iter().filter(|browser| browser.phase != DrainPhase::Serving).count();
        let total = browsers.len() - leaving.min(self.max_extra_draining) + starting;
        let missing = self.spare.saturating_sub(available + starting);
        // Without a successor the last one stays, unless it is what keeps the successor from
        // starting.
        let may_close = ready > 0 || total >= self.max;
        let select = |rule: &dyn Fn(&BrowserStatus) -> bool| {
            browsers.iter().filter(|browser| rule(browser)).map(|browser| browser.number).collect()
        };
        PoolPlan {
            start: missing.min(self.max.saturating_sub(total)),
            drain: select(&|browser| {
                browser.phase == DrainPhase::Serving && self.should_drain(browser, ready)
            }),
            close: select(&|browser| self.should_close(browser, may_close)),
        }
    }

    /// Whether it can be counted on for new clients.
    fn is_available(&self, browser: &BrowserStatus) -> bool {
        browser.phase == DrainPhase::Serving && !browser.drain_ordered && !self.is_near_lifetime(browser)
    }

    /// Whether it is so close to its lifetime that its successor should start.
    fn is_near_lifetime(&self, browser: &BrowserStatus) -> bool {
        let Capacity { concurrent, lifetime } = self.capacity;
        lifetime > 0
            && browser.lifetime > 0
            && browser.lifetime + u64::from(concurrent) >= u64::from(lifetime)
    }

    /// A browser drains when it is used up or ordered to. One close to its lifetime serves until
    /// its successor is ready.
    fn should_drain(&self, browser: &BrowserStatus, ready: usize) -> bool {
        browser.drain_ordered
            || self.capacity.is_exhausted(browser.lifetime)
            || (self.is_near_lifetime(browser) && ready > 0)
    }

    fn should_close(&self, browser: &BrowserStatus, may_close: bool) -> bool {
        if browser.active > 0 || browser.phase == DrainPhase::Closing {
            return false;
        }
        // What one client has used is not given to another.
        let is_used_up = self.capacity.lifetime == 1 && browser.lifetime > 0;
        is_used_up || (browser.phase == DrainPhase::Acknowledged && may_close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: PoolTarget = PoolTarget {
        spare: 1,
        max: 3,
        max_extra_draining: 0,
        capacity: Capacity { concurrent: 1, lifetime: 1 },
    };
    const SHARED: PoolTarget = PoolTarget {
        spare: 1,
        max: 4,
        max_extra_draining: 6,
        capacity: Capacity { concurrent: 5, lifetime: 50 },
    };

    fn browser(number: u64) -> BrowserStatus {
        BrowserStatus {
            number,
            joined: true,
            active: 0,
            lifetime: 0,
            drain_ordered: false,
            phase: DrainPhase::Serving,
        }
    }

    #[test]
    fn a_leased_browser_has_its_successor_started_at_once() {
        let leased = BrowserStatus { active: 1, lifetime: 1, ..browser(1) };
        let plan = ALONE.plan(&[leased], 0);
        assert_eq!(plan, PoolPlan { start: 1, drain: vec![1], close: vec![] });
        assert_eq!(ALONE.plan(&[leased], 1).start, 0);
    }

    #[test]
    fn there_are_never_more_than_the_most() {
        let leased = |number| BrowserStatus { active: 1, lifetime: 1, ..browser(number) };
        assert_eq!(ALONE.plan(&[leased(1), leased(2)], 0).start, 1);
        assert_eq!(ALONE.plan(&[leased(1), leased(2), leased(3)], 0).start, 0);
    }

    #[test]
    fn a_used_browser_is_closed_when_its_session_is_over() {
        let over = BrowserStatus { lifetime: 1, ..browser(1) };
        assert_eq!(ALONE.plan(&[over], 1).close, [1]);
        assert!(ALONE.plan(&[BrowserStatus { phase: DrainPhase::Closing, ..over }], 1).close.is_empty());
    }

    #[test]
    fn an_ageing_server_serves_until_its_successor_does() {
        let ageing = BrowserStatus { active: 2, lifetime: 45, ..browser(1) };
        assert_eq!(SHARED.plan(&[ageing], 0), PoolPlan { start: 1, ..PoolPlan::default() });
        let coming = BrowserStatus { joined: false, ..browser(2) };
        assert_eq!(SHARED.plan(&[ageing, coming], 0), PoolPlan::default());
        assert_eq!(SHARED.plan(&[ageing, browser(2)], 0), PoolPlan { drain: vec![1], ..PoolPlan::default() });
    }

    #[test]
    fn a_draining_server_is_closed_when_it_is_empty_and_replaced() {
        let draining = BrowserStatus { lifetime: 50, phase: DrainPhase::Acknowledged, ..browser(1) };
        assert!(SHARED.plan(&[draining], 1).close.is_empty());
        assert_eq!(SHARED.plan(&[draining, browser(2)], 0).close, [1]);
        let busy = BrowserStatus { active: 1, ..draining };
        assert!(SHARED.plan(&[busy, browser(2)], 0).close.is_empty());
        let unheard = BrowserStatus { phase: DrainPhase::Draining, ..draining };
        assert!(SHARED.plan(&[unheard, browser(2)], 0).close.is_empty());
    }

    #[test]
    fn servers_with_sessions_that_do_not_end_keep_no_successor_from_starting() {
        let long = |number| BrowserStatus {
            active: 1,
            lifetime: 50,
            phase: DrainPhase::Acknowledged,
            ..browser(number)
        };
        let browsers: Vec<_> = (1..=6).map(long).collect();
        assert_eq!(SHARED.plan(&browsers, 0), PoolPlan { start: 1, ..PoolPlan::default() });
        let too_many: Vec<_> = (1..=10).map(long).collect();
        assert_eq!(SHARED.plan(&too_many, 0).start, 0);
    }

    #[test]
    fn servers_for_one_session_each_are_never_more_than_the_most() {
        for lifetime in [1, 2] {
            let capacity = Capacity { concurrent: 1, lifetime };
            let leaving = |number| {
                let lifetime = u64::from(lifetime);
                BrowserStatus { active: 1, lifetime, phase: DrainPhase::Acknowledged, ..browser(number) }
            };
            let wanted = PoolTarget::server(capacity, 2);
            assert_eq!(wanted.plan(&[leaving(1)], 0).start, 1);
            assert_eq!(wanted.plan(&[leaving(1), leaving(2)], 0).start, 0);
            assert_eq!(PoolTarget::server(capacity, 0).plan(&[], 0).start, 1);
        }
        let shared = PoolTarget::server(Capacity { concurrent: 5, lifetime: 50 }, 2);
        assert_eq!((shared.max, shared.max_extra_draining), (MAX_SERVERS, MAX_DRAINING_SERVERS));
    }

    #[test]
    fn the_last_one_goes_first_if_there_is_no_room_for_another() {
        let narrow = PoolTarget { max: 1, ..ALONE };
        let ordered = BrowserStatus { drain_ordered: true, phase: DrainPhase::Acknowledged, ..browser(1) };
        assert_eq!(narrow.plan(&[ordered], 0), PoolPlan { start: 0, drain: vec![], close: vec![1] });
        assert_eq!(narrow.plan(&[], 0).start, 1);
    }
}
