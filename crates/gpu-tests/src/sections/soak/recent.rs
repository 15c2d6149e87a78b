//! A log that keeps the latest warnings, however long it is written to.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use msccl_runtime::{Event, Log};

/// Warnings that are kept.
const KEPT: usize = 16;

/// The latest warnings: hang reports and failures.
#[derive(Default)]
pub struct Recent(Mutex<VecDeque<String>>);

impl Log for Recent {
    fn event(&self, event: &Event) {
        if event.is_warning() {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(event.to_string());
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
    }
}

impl Recent {
    /// The warnings, oldest first.
    pub fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_warnings_are_kept() {
        let recent = Recent::default();
        recent.event(&Event::Loaded("no warning".to_owned()));
        (0..20).for_each(|number| recent.event(&Event::Failed(number.to_string())));
        let texts = recent.texts();
        assert_eq!((texts.len(), texts[0].as_str(), texts[15].as_str()), (16, "4", "19"));
    }
}
