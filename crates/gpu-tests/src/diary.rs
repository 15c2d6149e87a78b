//! What communicators say while they run.

use std::sync::{Mutex, PoisonError};

use msccl_runtime::{Event, Log};

/// Remembers events.
#[derive(Default)]
pub struct Diary(Mutex<Vec<Event>>);

impl Log for Diary {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

impl Diary {
    /// What `choose` takes from the events so far.
    pub fn collect<T>(&self, choose: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter_map(choose).collect()
    }

    /// Whether something whose name contains `name` has served a call.
    pub fn tells_of(&self, name: &str) -> bool {
        let serves = |event: &Event| match event {
            Event::Serves { by, .. } => by.contains(name).then_some(()),
            _ => None,
        };
        !self.collect(serves).is_empty()
    }
}
