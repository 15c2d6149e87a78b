//! The CUDA driver, made safe and found at run time.
