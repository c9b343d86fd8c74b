//! A deterministic random number generator: a replay of a run draws the same numbers.

use tidemill_core::workflow::RunId;

/// A random sequence that depends on the run alone. Journals depend on the algorithm, so it is
/// implemented here. A dependency that changed its own would make old journals diverge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunRng(u64);

impl RunRng {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of a run. It changes each time the run continues as new.
    pub(crate) fn for_run(run: &RunId, continued: u64) -> Self {
        // FNV-1a: any hash works as long as it never changes.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in run.as_str().bytes().chain(continued.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(hash)
    }

    /// The next number (SplitMix64).
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next sixteen bytes.
    pub(crate) fn next_bytes(&mut self) -> [u8; 16] {
        let pair = (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64());
        pair.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_run_never_changes() {
        let mut rng = RunRng::for_run(&"order-7".parse().unwrap(), 0);
        assert_eq!([rng.next_u64(), rng.next_u64()], [0x2673_614d_9c98_66ba, 0x35fa_f500_1a49_2eb8]);
    }

    #[test]
    fn a_run_that_continued_has_another_sequence() {
        let run = "order-7".parse().unwrap();
        assert_ne!(RunRng::for_run(&run, 0).next_u64(), RunRng::for_run(&run, 1).next_u64());
    }
}
