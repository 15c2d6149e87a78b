//! Algorithms to and from MSCCL XML and JSON
