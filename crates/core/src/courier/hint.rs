//! A hint: where it is counted how many have yet to look for announced jobs.

use std::fmt;
use std::str::FromStr;

use uuid::fmt::Hyphenated;
use uuid::{Uuid, Version};

/// The identity of a hint: a UUID, in the letters in which it was heard, because they are part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hint([u8; Hyphenated::LENGTH]);

impl Hint {
    /// A new one.
    pub fn generate() -> Self {
        let mut text = [0; Hyphenated::LENGTH];
        Uuid::now_v7().hyphenated().encode_lower(&mut text);
        Self(text)
    }

    /// Whether Tidemill made it, and what it is about is therefore the name of a queue: other programs make
    /// random ones.
    pub fn is_ours(&self) -> bool {
        Uuid::try_parse_ascii(&self.0).is_ok_and(|uuid| uuid.get_version() == Some(Version::SortRand))
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).unwrap_or_default())
    }
}

/// Text that is no hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a hint")]
pub struct NotAHint;

impl FromStr for Hint {
    type Err = NotAHint;
    /// Reads a UUID with its hyphens, and no other of the forms it may have.
    fn from_str(text: &str) -> Result<Self, NotAHint> {
        let letters = <[u8; Hyphenated::LENGTH]>::try_from(text.as_bytes()).map_err(|_| NotAHint)?;
        Uuid::try_parse_ascii(&letters).map(|_| Self(letters)).map_err(|_| NotAHint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_and_knows_its_own_kind() {
        let own = Hint::generate();
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!(own.is_ours());
        let foreign = "550E8400-E29B-41D4-A716-446655440000";
        assert_eq!(foreign.parse::<Hint>().unwrap().to_string(), foreign);
        assert!(!"550e8400-e29b-41d4-a716-446655440000".parse::<Hint>().unwrap().is_ours());
        for bad in ["", "mail", "550e8400e29b41d4a716446655440000", "{550e8400-e29b-41d4-a716-446655440000}"]
        {
            assert_eq!(bad.parse::<Hint>(), Err(NotAHint), "{bad}");
        }
    }
}
