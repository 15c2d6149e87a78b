//! Instructions for people: one line each, in the order of waves.

use std::fmt::{self, Write as _};

use super::dag::{Instruction, InstructionDag, InstructionId, Operand};

impl InstructionDag {
    /// Every instruction on a line, in the order of waves, phases and ranks:
    ///
    /// ```text
    /// w0  r0  i[0..2] → r1
    /// w0  r1  r0 + i[0..2] → i[0..2], r2
    /// ```
    pub fn dump(&self) -> String {
        let mut ids: Vec<InstructionId> =
            (0..self.instructions.len() as u32).map(InstructionId).collect();
        ids.sort_by_key(|&id| {
            let instruction = self.instruction(id);
            (instruction.key(), instruction.rank)
        });
        let mut text = String::new();
        for id in ids {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", self.line(self.instruction(id)));
        }
        text
    }

    /// One instruction, as [`InstructionDag::dump`] prints it.
    pub fn line<'a>(&'a self, instruction: &'a Instruction) -> impl fmt::Display + 'a {
        InstructionLine { dag: self, instruction }
    }
}

struct InstructionLine<'a> {
    dag: &'a InstructionDag,
    instruction: &'a Instruction,
}

impl fmt::Display for InstructionLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instruction { rank, wave, ref sources, ref destinations, count, .. } =
            *self.instruction;
        write!(f, "w{wave}  {rank}  ")?;
        for (index, source) in sources.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " + " })?;
            match *source {
                Operand::Local(slot) => write!(f, "{}", slot.run(count))?,
                Operand::Message(id) => write!(f, "{}", self.dag.message(id).from)?,
            }
        }
        for (index, destination) in destinations.iter().enumerate() {
            f.write_str(if index == 0 { " → " } else { ", " })?;
            match *destination {
                Operand::Local(slot) => write!(f, "{}", slot.run(count))?,
                Operand::Message(id) => write!(f, "{}", self.dag.message(id).to)?,
            }
        }
        Ok(())
    }
}
