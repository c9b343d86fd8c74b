//! `tidemill workflow`, run beside a worker that knows the code.

mod bad_input;
mod journal;
mod life;
mod list;
mod show;
mod steady;
mod worker;
