//! Executes plans on host threads
