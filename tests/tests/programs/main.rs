//! Programs and algorithms on their way through all crates: compiled, proved, written, read, run.

mod averages;
mod clusters;
mod examples;
mod instances;
mod interpreters;
mod mutants;
mod random_programs;
mod teaching;
