//! Chains: continuing them, and unblocking jobs that wait for them.

mod continue_chain;
mod release_owed;
