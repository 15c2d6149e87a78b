//! The text of a program whose statements stand step by step.

use std::collections::BTreeMap;
use std::fmt::Write;

use msccl_collective::Protocol;

use super::clauses::Messages;
use super::plan::StepPlan;
use super::spread::Message;
use super::sum::{SumMessage, SumMessages, Terms};
use crate::network::Direction;

const PASS_ON: &str = "
// Every receiver gets a block from its sender: [block, sender, receivers].
fn pass_on(messages) {
    for [block, sender, receivers] in messages, receiver in receivers {
        output@receiver[block] = output@sender[block]
    }
}
";

const ADD_UP: &str = "
// Every receiver adds what its senders have of a block: [block, receiver, senders].
fn add_up(messages) {
    for [block, receiver, senders] in messages {
        input@receiver[block] += sum(sender in senders: input@sender[block])
    }
}
";

impl StepPlan {
    /// The program, without comments about what is certified.
    pub fn program(&self, protocol: Protocol) -> String {
        program(self, protocol)
    }
}

fn program(plan: &StepPlan, protocol: Protocol) -> String {
    let StepPlan { kind, ranks, .. } = plan;
    let body = match &plan.messages {
        Messages::Spread(messages) => spread(plan, messages),
        Messages::Sum(sums) => sum(sums),
    };
    let function = match (&plan.messages, plan.direction) {
        (Messages::Spread(_), Direction::Along) => PASS_ON,
        (Messages::Spread(_), Direction::Against) => ADD_UP,
        (Messages::Sum(_), _) => "",
    };
    let root = kind.root().map(|root| format!("root {}, ", root.0)).unwrap_or_default();
    let protocol = match protocol {
        Protocol::Simple => String::new(),
        other => format!(" protocol {other}"),
    };
    let text = format!(
        "{function}
algorithm {name}(ranks N = {ranks}) implements {name}({root}chunks 1) in place{protocol} {{
require N == {ranks}, \"these messages are for {ranks} ranks\"
{body}}}
",
        name = kind.name(),
    );
    // What is written here parses, so that the formatter has nothing to complain of.
    msccl_syntax::format(text.trim_start()).unwrap_or(text)
}

fn title(step: u32, steps: u32) -> String {
    format!("\n// Step {step} of {steps}.\n")
}

/// A call of the function for each step.
fn spread(plan: &StepPlan, messages: &[Message]) -> String {
    let steps = plan.messages.steps();
    let mut text = String::new();
    for step in 1..=steps {
        // In the other direction, the last message comes first, and goes to who sent it.
        let (name, of) = match plan.direction {
            Direction::Along => ("pass_on", step),
            Direction::Against => ("add_up", steps + 1 - step),
        };
        let mut peers: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for message in messages.iter().filter(|message| message.step == of) {
            peers.entry((message.block, message.from)).or_default().push(message.to);
        }
        peers.values_mut().for_each(|peers| peers.sort_unstable());
        let lists =
            peers.iter().map(|((block, rank), peers)| format!("[{block}, {rank}, {peers:?}]"));
        text += &title(step, steps);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}([{}])", lists.collect::<Vec<_>>().join(", "));
    }
    text
}

/// A statement for each sum and for each message.
fn sum(sums: &SumMessages) -> String {
    let writer = SumWriter::new(sums);
    let steps = sums.steps();
    let mut text = writer.buffers();
    for step in 1..=steps {
        text += &title(step, steps);
        for (at, message) in sums.messages.iter().enumerate().filter(|(_, it)| it.step == step) {
            text += &writer.message(at, message);
        }
    }
    text += "\n// What has come is added up.\n";
    for (rank, terms) in sums.results.iter().enumerate() {
        let _ = writeln!(text, "output@{rank} = {}", writer.sum(rank, terms));
    }
    text
}

struct SumWriter<'a> {
    sums: &'a SumMessages,
    /// By message: its place among those that come to its receiver.
    slots: Vec<usize>,
    /// By message: the least rank whose contribution is in it, by which terms are ordered.
    least: Vec<usize>,
}

impl<'a> SumWriter<'a> {
    fn new(sums: &'a SumMessages) -> Self {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        let mut least: Vec<usize> = Vec::new();
        let mut slots = Vec::new();
        for message in &sums.messages {
            let count = counts.entry(message.to).or_default();
            slots.push(*count);
            *count += 1;
            let own = message.terms.own.then_some(message.from);
            let others = message.terms.messages.iter().map(|at| least[*at]);
            least.push(own.into_iter().chain(others).min().unwrap_or(message.from));
        }
        Self { sums, slots, least }
    }

    fn buffers(&self) -> String {
        let got = self.slots.iter().max().map_or(0, |most| most + 1);
        let mut text = format!(
            "// What comes to a rank, in the order in which it comes.\nscratch got[{got}]\n"
        );
        if self.sums.messages.iter().any(|it| is_sum(&it.terms)) {
            text += &format!(
                "// What a rank sends, where that is a sum.\nscratch partial[{}]\n",
                self.sums.messages.len()
            );
        }
        text
    }

    /// What sends a message; before it the sum that it carries, if it is the first to do so.
    fn message(&self, at: usize, message: &SumMessage) -> String {
        let SumMessage { from, to, terms, step: _ } = message;
        let to = format!("got@{to}[{}]", self.slots[at]);
        if !is_sum(terms) {
            return format!("{to} = {}\n", self.sum(*from, terms));
        }
        let same = |it: &SumMessage| it.from == *from && it.terms == *terms;
        let first = self.sums.messages.iter().position(same).unwrap_or(at);
        let partial = format!("partial@{from}[{first}]");
        let sum = if first == at {
            format!("{partial} = {}\n", self.sum(*from, terms))
        } else {
            String::new()
        };
        format!("{sum}{to} = {partial}\n")
    }

    /// `input@0 + got@0[2]`
    fn sum(&self, rank: usize, terms: &Terms) -> String {
        let own = terms.own.then(|| (rank, format!("input@{rank}")));
        let others = terms.messages.iter();
        let others = others.map(|at| (self.least[*at], format!("got@{rank}[{}]", self.slots[*at])));
        let mut terms: Vec<(usize, String)> = own.into_iter().chain(others).collect();
        terms.sort();
        terms.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" + ")
    }
}

fn is_sum(terms: &Terms) -> bool {
    usize::from(terms.own) + terms.messages.len() > 1
}
