//! A log that remembers: for tools that tell afterwards what happened, and for tests.

use std::sync::{Mutex, PoisonError};

use crate::settings::{Event, Log};

/// Remembers events, in the order in which they happened.
#[derive(Default, Debug)]
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

    /// Who waited for whom, where calls did not get on.
    pub fn stories(&self) -> Vec<String> {
        self.collect(|event| match event {
            Event::Story(story) => Some(story.clone()),
            _ => None,
        })
    }
}
