//! Ranks on host threads against the host executor, and against one another.

mod collectives;
mod faults;
mod patterns;
mod processes;
mod world;
