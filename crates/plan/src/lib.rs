//! A verified algorithm as position-independent words
