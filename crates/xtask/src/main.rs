//! Tasks of developers.

fn main() {}
