//! The status of a run.

use std::fmt;
use std::str::FromStr;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It has not ended.
    Running,
    /// It ended with a result.
    Completed,
    /// It ended with an error.
    Failed,
    /// It ended after a cancellation request.
    Cancelled,
    /// It was terminated.
    Terminated,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Completed, Self::Failed, Self::Cancelled, Self::Terminated];

    /// Whether the run has ended.
    pub fn is_closed(self) -> bool {
        self != Self::Running
    }

    /// The name of the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for text that is not a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no status: running, completed, failed, cancelled or terminated")]
pub struct UnknownRunStatus(String);

impl FromStr for RunStatus {
    type Err = UnknownRunStatus;

    fn from_str(text: &str) -> Result<Self, UnknownRunStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| UnknownRunStatus(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_reads_back() {
        for status in RunStatus::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
        }
        assert!("open".parse::<RunStatus>().is_err());
    }
}
