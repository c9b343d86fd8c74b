//! Chance that falls the same way every time a run is replayed.

use tidemill_core::workflow::RunId;

/// A random sequence that depends on the run alone. The algorithm is part of the journal's meaning and so it is
/// written here: a dependency that improved its own would change what old journals say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of a run; another one after each time it continued as new.
    pub(crate) fn of(run: &RunId, continued: u64) -> Self {
        // FNV-1a: any hash will do that never changes.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in run.as_str().bytes().chain(continued.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(hash)
    }

    /// The next number (SplitMix64).
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Sixteen bytes.
    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        let pair = (u128::from(self.roll()) << 64) | u128::from(self.roll());
        pair.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_run_never_changes() {
        let mut dice = Dice::of(&"order-7".parse().unwrap(), 0);
        assert_eq!([dice.roll(), dice.roll()], [0x2673_614d_9c98_66ba, 0x35fa_f500_1a49_2eb8]);
    }

    #[test]
    fn a_run_that_continued_has_another_sequence() {
        let run = "order-7".parse().unwrap();
        assert_ne!(Dice::of(&run, 0).roll(), Dice::of(&run, 1).roll());
    }
}
