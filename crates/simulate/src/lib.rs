//! The machine over numbers and over time
