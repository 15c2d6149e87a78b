//! What was called, counted by kind.

use std::collections::BTreeMap;
use std::fmt;

use super::case::{Piece, SoakCase, SoakStep};
use crate::case::Case;

/// Counts.
#[derive(Default)]
pub struct Statistics {
    /// Collectives and exchanges of messages whose results were compared on every rank.
    pub compared: u64,
    /// The same, with those that were made again before anybody compared.
    pub made: u64,
    /// Groups and launches of graphs.
    acts: BTreeMap<&'static str, u64>,
    kinds: BTreeMap<&'static str, u64>,
    types: BTreeMap<&'static str, u64>,
    traits: BTreeMap<&'static str, u64>,
}

impl Statistics {
    /// Counts all rounds of `scene`.
    pub fn add(&mut self, scene: &SoakCase) {
        let rounds = scene.rounds.len() as u64;
        for act in &scene.acts {
            let SoakStep { batches, stream: _, other_stream, graph, pin, times } = act;
            let submitted = rounds * *times as u64;
            let mut note =
                |is: bool, name| *self.acts.entry(name).or_default() += submitted * u64::from(is);
            note(graph.is_some(), "in graphs");
            note(graph.is_none(), "eager");
            note(pin.is_some(), "pinned");
            note(batches.len() > 1, "on two communicators");
            note(other_stream.is_some(), "in two streams");
            note(scene.apart, "in orders of each rank");
            for (_, piece) in scene.pieces_of(act) {
                self.compared += rounds;
                self.made += submitted;
                self.note(piece, rounds);
            }
        }
    }

    fn note(&mut self, piece: &Piece, rounds: u64) {
        let kind = match piece {
            Piece::Collective(case) => case.kind.name(),
            Piece::Messages(_) => "messages",
        };
        *self.kinds.entry(kind).or_default() += rounds;
        let Piece::Collective(case) = piece else { return };
        let Case { count, in_place, shift, scale, data_type, .. } = case;
        *self.types.entry(data_type.name()).or_default() += rounds;
        let mut note =
            |is: bool, name| *self.traits.entry(name).or_default() += rounds * u64::from(is);
        note(*in_place, "in place");
        note(*count == 0, "of nothing");
        note(*count > 1 << 20, "large");
        note(*shift != [0, 0], "unaligned");
        note(scale.is_some(), "scaled");
    }
}

/// Three lines.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compared, made, acts, kinds, types, traits } = self;
        let list = |counts: &BTreeMap<&'static str, u64>| {
            let counts = counts.iter().filter(|(_, count)| **count > 0);
            counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "        {made} calls, {compared} compared: {}", list(kinds))?;
        writeln!(f, "        groups: {}; collectives: {}", list(acts), list(traits))?;
        write!(f, "        {}", list(types))
    }
}
