//! From a program to an algorithm: chunk DAG, instruction DAG, schedule
