//! Certificates of steps, read from the text of a program.

use msccl_collective::CollectiveKind;

use super::{MARK, StepCertificate};
use crate::certificate::{CertificateError, Line, LineReader, call, marked};
use crate::least_steps::bound::{StepBound, StepReason};
use crate::least_steps::cnf::Literal;
use crate::least_steps::cut::StepCut;
use crate::least_steps::lrat::Lemma;
use crate::least_steps::timing::Timing;

impl StepCertificate {
    /// The certificate in `text`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// The first line that is not as it should be.
    pub fn read(text: &str) -> Result<Option<Self>, CertificateError> {
        let lines = marked(text, MARK);
        if lines.is_empty() {
            return Ok(None);
        }
        StepReader(LineReader::new(&lines)).certificate().map(Some)
    }
}

struct StepReader<'l, 't>(LineReader<'l, 't>);

impl StepReader<'_, '_> {
    fn certificate(&mut self) -> Result<StepCertificate, CertificateError> {
        let Call { kind, ranks, link_chunks } = self.call()?;
        let steps = self.number(&["takes"])?;
        let timing = self.timing()?;
        let least = self.number(&["at", "least"])?;
        let reason = self.reason()?;
        if let Some(line) = self.0.rest().first() {
            return Err(line.error("no further line"));
        }
        let bound = StepBound { least, reason };
        Ok(StepCertificate { kind, ranks, link_chunks, steps, bound, timing })
    }

    /// `allgather over 8 ranks, at most 1 chunks on a link`
    fn call(&mut self) -> Result<Call, CertificateError> {
        let line = self.0.next_line("a collective over ranks")?;
        let found = match &line.words[..] {
            [start @ .., "ranks,", "at", "most", chunks, "chunks", "on", "a", "link"] => {
                let of = call(&[start, &["ranks"]].concat());
                of.zip(chunks.parse().ok().filter(|chunks: &u32| *chunks > 0))
            }
            _ => None,
        };
        let ((kind, ranks), link_chunks) = found
            .ok_or_else(|| line.error("`COLLECTIVE over N ranks, at most K chunks on a link`"))?;
        Ok(Call { kind, ranks, link_chunks })
    }

    /// `takes 3`
    fn number(&mut self, words: &[&str]) -> Result<u32, CertificateError> {
        let expected = format!("`{} NUMBER`", words.join(" "));
        let line = self.0.next_line(&expected)?;
        let number = line.words.strip_prefix(words).and_then(|rest| match rest {
            [number] => number.parse().ok(),
            _ => None,
        });
        number.ok_or_else(|| line.error(&expected))
    }

    /// `from 0 to 1 in 1 2 to 3 in 1`
    fn timing(&mut self) -> Result<Timing, CertificateError> {
        let mut timing = Timing::new();
        for line in self.0.all("from") {
            let expected = || line.error("`from RANK to RANK in STEP … to RANK in STEP …`");
            let [_, from, peers @ ..] = &line.words[..] else { return Err(expected()) };
            let from = from.parse().map_err(|_| expected())?;
            let mut peers = peers.split(|word| *word == "to");
            if peers.next().is_none_or(|before| !before.is_empty()) {
                return Err(expected());
            }
            for peer in peers {
                let [to, "in", steps @ ..] = peer else { return Err(expected()) };
                let to = to.parse().map_err(|_| expected())?;
                let steps: Result<Vec<u32>, _> = steps.iter().map(|step| step.parse()).collect();
                timing.entry((from, to)).or_default().extend(steps.map_err(|_| expected())?);
            }
        }
        Ok(timing)
    }

    fn reason(&mut self) -> Result<StepReason, CertificateError> {
        let expected = "`none`, `growth`, `cut` or `proof`";
        if let proof @ [_, ..] = self.0.all("proof") {
            return lemmas(proof).map(StepReason::Proof);
        }
        let line = self.0.next_line(expected)?;
        match &line.words[..] {
            ["none"] => Ok(StepReason::NoStep),
            ["growth"] => Ok(StepReason::Growth),
            ["cut", ranks @ ..] => {
                let after = |word: &&str| match *word {
                    "-" => Ok(None),
                    step => step.parse().map(Some),
                };
                let inside_after: Result<_, _> = ranks.iter().map(after).collect();
                let inside_after = inside_after.map_err(|_| line.error("a step or `-` by rank"))?;
                Ok(StepReason::Cut(StepCut { inside_after }))
            }
            _ => Err(line.error(expected)),
        }
    }
}

/// The first line.
struct Call {
    kind: CollectiveKind,
    ranks: u32,
    link_chunks: u32,
}

/// Lemmas, which may begin in one line and end in another.
fn lemmas(lines: &[Line<'_>]) -> Result<Vec<Lemma>, CertificateError> {
    let mut lemmas = Vec::new();
    let mut literals: Option<Vec<Literal>> = None;
    let mut numbers: Vec<i32> = Vec::new();
    for line in lines {
        for word in &line.words[1..] {
            let number = word.parse().map_err(|_| line.error("numbers of a proof"))?;
            if number != 0 {
                numbers.push(number);
                continue;
            }
            let of_list = std::mem::take(&mut numbers).into_iter();
            match literals.take() {
                None => literals = Some(of_list.filter_map(Literal::from_number).collect()),
                Some(literals) => {
                    let hints: Option<Vec<u32>> =
                        of_list.map(|hint| u32::try_from(hint.checked_sub(1)?).ok()).collect();
                    let hints = hints.ok_or_else(|| line.error("hints above 0"))?;
                    lemmas.push(Lemma { literals, hints });
                }
            }
        }
    }
    match (literals, &numbers[..], lines.last()) {
        (Some(_), _, Some(last)) | (None, [_, ..], Some(last)) => {
            Err(last.error("a lemma that ends with 0"))
        }
        _ => Ok(lemmas),
    }
}
