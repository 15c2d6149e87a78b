//! The plan itself: words that stand for a proved algorithm.
