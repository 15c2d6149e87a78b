//! What communicators say while they run.

use std::sync::{Mutex, PoisonError};

use msccl_collective::Rank;
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
    /// Where the first rank runs, and how its links are realised.
    pub fn place(&self) -> String {
        let places = self.collect(|event| match event {
            Event::Ready { rank: Rank(0), place, .. } => Some(place.clone()),
            _ => None,
        });
        places.into_iter().next().unwrap_or_default()
    }

    /// Who waited for whom, where calls did not get on.
    pub fn stories(&self) -> Vec<String> {
        self.collect(|event| match event {
            Event::Story(story) => Some(story.clone()),
            _ => None,
        })
    }

    fn collect<T>(&self, choose: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter_map(choose).collect()
    }
}
