//! The judge: proves an algorithm or tells the shortest story of its fault
