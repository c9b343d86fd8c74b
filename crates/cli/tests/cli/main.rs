//! The real binary, run in directories of its own.

mod bad_input;
mod demo;
mod exec;
mod foreign;
mod help;
mod json;
mod letters;
mod life;
mod place;
mod stop;
