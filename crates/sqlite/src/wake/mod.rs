//! Wake-ups: those of a transaction, and how they are published after its commit.

mod post_commit;
mod transaction_wakes;

pub use post_commit::PendingWakes;
pub(crate) use post_commit::PostCommitWakes;
pub(crate) use transaction_wakes::TransactionWakes;
