//! Timelines as files of other tools.
//!
//! * [`perfetto`]: the protobuf of [Perfetto](https://perfetto.dev); everything a timeline has.
//! * [`chrome`]: JSON for `chrome://tracing`, which merges with the profiles of PyTorch.

mod chrome;
mod perfetto;
mod protobuf;
mod slices;

pub use chrome::{ChromeError, chrome, kineto_base_ns, merge_with_profile, write_chrome};
pub use perfetto::{perfetto, write_perfetto};
