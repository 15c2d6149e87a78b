//! Runs cases one after another; a world that fails is replaced, so that one fault hides no others.

use std::sync::Arc;

use msccl_runtime::{Choice, Event, EventLog, Settings};

use crate::case::Case;
use crate::hosts::Hosts;
use crate::machine::Machine;
use crate::tally::Tally;
use crate::world::World;

/// Worlds that are made for one setting, at most.
const WORLDS_MAX: usize = 6;

/// Worlds of one setting, one at a time.
pub struct Runner<'a> {
    machine: &'a Machine,
    ranks: u32,
    /// As if on these.
    hosts: Hosts,
    settings: Settings,
    /// What the setting is called in failures.
    name: String,
    /// What alone may serve collectives.
    pinned: Option<Choice>,
    world: Option<World>,
    made: usize,
    event_log: Arc<EventLog>,
}

impl<'a> Runner<'a> {
    /// No world yet.
    pub fn new(
        machine: &'a Machine,
        ranks: u32,
        settings: Settings,
        name: impl Into<String>,
    ) -> Self {
        let (hosts, pinned, world, made, event_log) = (Hosts::ONE, None, None, 0, Arc::default());
        Self { machine, ranks, hosts, settings, name: name.into(), pinned, world, made, event_log }
    }

    /// With the ranks as if on `hosts`.
    pub fn on_hosts(self, hosts: Hosts) -> Self {
        Self { hosts, ..self }
    }

    /// From now on `choice` serves every collective, and nothing else does.
    pub fn pin(&mut self, choice: Choice) {
        self.pinned = Some(choice);
        self.world.iter().for_each(|world| world.pin(self.pinned.as_ref()));
    }

    /// Runs every case. `algorithm` is what is known to serve them; it matters only where sums are
    /// rounded.
    pub fn run(
        &mut self,
        cases: impl IntoIterator<Item = Case>,
        algorithm: &str,
        tally: &mut Tally,
    ) {
        for case in cases {
            let by = self.pinned.as_ref().map(|choice| format!(" by {choice}"));
            let name = format!("{}{}: {}", self.name, by.unwrap_or_default(), case.describe());
            let Some(world) = self.world(tally) else { return };
            tally.check(|| name.clone(), || world.run(&case, algorithm));
            if world.has_failed() {
                self.world = None;
            }
        }
    }

    /// The world, made now if there is none; `None` when too many have failed.
    pub fn world(&mut self, tally: &mut Tally) -> Option<&mut World> {
        if self.world.is_none() && self.made < WORLDS_MAX {
            self.made += 1;
            let Self { machine, ranks, hosts, settings, event_log, .. } = &*self;
            let join = || World::join_on(*hosts, machine, *ranks, settings, event_log);
            self.world = tally.need(|| self.name.clone(), join);
            self.world.iter().for_each(|world| world.pin(self.pinned.as_ref()));
        }
        self.world.as_mut()
    }

    /// Whether something whose name contains `name` has served a call.
    fn reports(&self, name: &str) -> bool {
        let serves = |event: &Event| match event {
            Event::Serves { by, .. } => by.contains(name).then_some(()),
            _ => None,
        };
        !self.event_log.collect(serves).is_empty()
    }

    /// Fails unless something whose name contains `name` has served a call.
    pub fn check_served_by(&self, name: &str, tally: &mut Tally) {
        tally.check(
            || self.name.clone(),
            || match self.reports(name) {
                true => Ok(()),
                false => Err(format!("the log has no call that {name} served").into()),
            },
        );
    }
}
