//! Hints: counters of how many claims have yet to poll for announced jobs.

use std::fmt;
use std::str::FromStr;

use uuid::fmt::Hyphenated;
use uuid::{Uuid, Version};

/// The id of a hint: a UUID, in the exact spelling received, because the spelling is part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hint([u8; Hyphenated::LENGTH]);

impl Hint {
    /// A new hint, a UUID of version 7.
    pub fn generate() -> Self {
        Self::write(Uuid::now_v7())
    }

    /// A new hint whose message is followed by one without a hint, about the same jobs. A UUID of
    /// version 8, whose meaning is up to the program that makes it.
    pub fn generate_with_twin() -> Self {
        let mut bytes = Uuid::now_v7().into_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        Self::write(Uuid::from_bytes(bytes))
    }

    fn write(uuid: Uuid) -> Self {
        let mut text = [0; Hyphenated::LENGTH];
        uuid.hyphenated().encode_lower(&mut text);
        Self(text)
    }

    /// Whether Tidemill made the hint, so that its subject is the name of a queue. Other programs
    /// make random UUIDs.
    pub fn is_ours(&self) -> bool {
        matches!(self.version(), Some(Version::SortRand | Version::Custom))
    }

    /// Whether a message without a hint follows, about the same jobs.
    pub fn has_twin(&self) -> bool {
        self.version() == Some(Version::Custom)
    }

    fn version(&self) -> Option<Version> {
        Uuid::try_parse_ascii(&self.0).ok()?.get_version()
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).unwrap_or_default())
    }
}

/// The error for text that is not a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a hint")]
pub struct ParseHintError;

impl FromStr for Hint {
    type Err = ParseHintError;
    /// Parses a UUID with hyphens, and no other form.
    fn from_str(text: &str) -> Result<Self, ParseHintError> {
        let letters = <[u8; Hyphenated::LENGTH]>::try_from(text.as_bytes()).map_err(|_| ParseHintError)?;
        Uuid::try_parse_ascii(&letters).map(|_| Self(letters)).map_err(|_| ParseHintError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_and_knows_its_own_kind() {
        let own = Hint::generate();
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!(own.is_ours() && !own.has_twin());
        let with_twin = Hint::generate_with_twin();
        assert!(with_twin.is_ours() && with_twin.has_twin());
        let foreign = "550E8400-E29B-41D4-A716-446655440000";
        assert_eq!(foreign.parse::<Hint>().unwrap().to_string(), foreign);
        assert!(!"550e8400-e29b-41d4-a716-446655440000".parse::<Hint>().unwrap().is_ours());
        for bad in ["", "mail", "550e8400e29b41d4a716446655440000", "{550e8400-e29b-41d4-a716-446655440000}"]
        {
            assert_eq!(bad.parse::<Hint>(), Err(ParseHintError), "{bad}");
        }
    }
}
