//! `<step>`.

use msccl_collective::{Buffer, Slot};
use msccl_ir::Wait;

use super::ReadError;
use super::attributes::Attributes;
use super::cursor::{Cursor, Element};
use crate::xml::row::{NOWHERE, Row, Type, wait};
use crate::xml::vocabulary::step;

/// A step with what the IR does not keep.
pub(super) struct FileRow {
    pub row: Row,
    /// `hasdep`, where it is stated.
    pub signals: Option<bool>,
    pub offset: usize,
}

type Values<'a> = Attributes<'a, { step::TABLE.len() }>;

impl FileRow {
    /// Reads the `<step>` at position `number` of its thread block.
    pub(super) fn read<'a>(
        cursor: &mut Cursor<'a>,
        element: &Element<'a>,
        number: usize,
    ) -> Result<Self, ReadError> {
        let values = Attributes::gather(cursor, element, step::NAME, &step::TABLE)?;
        check_number(cursor, &values, number)?;
        let kind = kind(cursor, &values)?;
        let count = match kind {
            Type::Nop => 0,
            _ => values.index(cursor, step::CNT)?,
        };
        let (src, dst) = places(cursor, &values, kind)?;
        let wait = read_wait(cursor, &values)?;
        let signals = signals(cursor, &values, kind)?;
        let mut row = Row { kind, src, dst, count, wait, signals: false };
        if kind != Type::Nop && count == 0 {
            cursor.notes.warning(format!("a step of type `{}` with cnt 0 only waits", kind.name()));
            row = Row { kind: Type::Nop, src: NOWHERE, dst: NOWHERE, ..row };
        }
        Ok(Self { row, signals, offset: element.offset })
    }
}

/// `hasdep`, where it is stated; nobody looks at that of a no-op.
fn signals<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
    kind: Type,
) -> Result<Option<bool>, ReadError> {
    if kind == Type::Nop {
        return Ok(None);
    }
    if values.has(step::HASDEP) {
        return Ok(Some(values.integer(cursor, step::HASDEP)? == 1));
    }
    cursor.notes.missing(step::NAME, "hasdep");
    Ok(None)
}

/// The interpreters count positions and do not look at `s`.
fn check_number<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
    number: usize,
) -> Result<(), ReadError> {
    if !values.has(step::S) {
        cursor.notes.missing(step::NAME, "s");
        return Ok(());
    }
    if values.index(cursor, step::S)? as usize != number {
        cursor.notes.warning(
            "`s` of a step is not its position; the interpreters count positions, and so do the \
             waits for it: number the steps of a thread block 0, 1, 2, …"
                .to_owned(),
        );
    }
    Ok(())
}

fn kind<'a>(cursor: &mut Cursor<'a>, values: &Values<'a>) -> Result<Type, ReadError> {
    match values.word(cursor, step::TYPE)? {
        b"ra" => {
            let offset = values.offset_of(cursor, step::TYPE);
            let message = "`ra` passes the first runtime's parser, but its kernel has no such step \
                           and leaves the thread block there";
            cursor.notes.contradiction(offset, cursor.locus, message);
            Ok(Type::Nop)
        }
        name => Type::from_name(name).ok_or_else(|| values.not_a_word(cursor, step::TYPE)),
    }
}

/// The two places; one that the type does not use repeats the other.
fn places<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
    kind: Type,
) -> Result<(Slot, Slot), ReadError> {
    let src = |cursor: &mut _| place(cursor, values, step::SRCBUF, step::SRCOFF);
    let dst = |cursor: &mut _| place(cursor, values, step::DSTBUF, step::DSTOFF);
    Ok(match (kind.uses_src(), kind.uses_dst()) {
        (true, true) => (src(cursor)?, dst(cursor)?),
        (true, false) => {
            let src = src(cursor)?;
            (src, src)
        }
        (false, true) => {
            let dst = dst(cursor)?;
            (dst, dst)
        }
        (false, false) => (NOWHERE, NOWHERE),
    })
}

fn place<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
    buffer: usize,
    offset: usize,
) -> Result<Slot, ReadError> {
    let buffer = match values.word(cursor, buffer)? {
        b"i" => Buffer::Input,
        b"o" => Buffer::Output,
        b"s" => Buffer::Scratch,
        _ => return Err(values.not_a_word(cursor, buffer)),
    };
    let index = u32::try_from(values.integer(cursor, offset)?).unwrap_or_else(|_| {
        let at = values.offset_of(cursor, offset);
        let message = "the place that this step uses has a negative offset";
        cursor.notes.contradiction(at, cursor.locus, message);
        0
    });
    Ok(Slot::new(buffer, index))
}

fn read_wait<'a>(cursor: &mut Cursor<'a>, values: &Values<'a>) -> Result<Option<Wait>, ReadError> {
    let tb = values.integer_or(cursor, step::DEPID, -1)?;
    let number = values.integer_or(cursor, step::DEPS, -1)?;
    Ok(match (u32::try_from(tb), u32::try_from(number)) {
        (Ok(tb), Ok(number)) => Some(wait(tb, number)),
        (Err(_), _) => None,
        (Ok(tb), Err(_)) => {
            let offset = values.offset_of(cursor, step::DEPS);
            let message = format!("waits for tb {tb}, but for no step of it; set `deps`");
            cursor.notes.contradiction(offset, cursor.locus, message);
            None
        }
    })
}
