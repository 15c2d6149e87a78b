//! `<contract>`: the pre- and post-condition of a custom collective.

use msccl_collective::{Contract, Contribution, Rank};

use super::ReadError;
use super::attributes::Attributes;
use super::cursor::Cursor;
use crate::xml::vocabulary::{given, promise};

/// What the file's contracts say; `None` while there was none.
#[derive(Default)]
pub(super) struct Clauses {
    pub contract: Option<Contract>,
}

impl Clauses {
    /// Reads the children of a `<contract>`.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let contract = self.contract.get_or_insert_default();
        while let Some(child) = cursor.next_child()? {
            match child.name() {
                b"given" => {
                    let table = &given::TABLE;
                    let values = Attributes::gather(cursor, &child, given::NAME, table)?;
                    contract.given.insert(Contribution {
                        rank: Rank(values.index(cursor, given::GPU)?),
                        index: values.index(cursor, given::INDEX_OF)?,
                    });
                    cursor.skip()?;
                }
                b"promise" => {
                    let table = &promise::TABLE;
                    let values = Attributes::gather(cursor, &child, promise::NAME, table)?;
                    let rank = Rank(values.index(cursor, promise::GPU)?);
                    let index = values.index(cursor, promise::INDEX_OF)?;
                    let part = Contribution {
                        rank: Rank(values.index(cursor, promise::FROM)?),
                        index: values.index(cursor, promise::AT)?,
                    };
                    contract.promised.entry((rank, index)).or_default().push(part);
                    cursor.skip()?;
                }
                _ => cursor.ignore(&child)?,
            }
        }
        for sum in contract.promised.values_mut() {
            sum.sort_unstable();
        }
        Ok(())
    }
}
