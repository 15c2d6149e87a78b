//! What expressions evaluate to.

use std::fmt;
use std::rc::Rc;

use super::budget::MAX_LIST_NESTING;
use super::progression::Progression;
use crate::chunk::{BufferId, Region};

/// A value. Cloning is cheap.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(i64),
    Bool(bool),
    Str(Rc<str>),
    /// The integers from the first up to and without the second.
    Range(i64, i64),
    /// Integers at even distances that are no run of neighbours; they cut no region.
    Stepped(Progression),
    List(Rc<List>),
    Buffer(BufferId),
    Region(Region),
    /// A sum of regions, at least one.
    Sum(Rc<[Region]>),
    /// A sum without terms: 0 where an integer is expected, nothing where regions are.
    EmptySum,
    /// What an expression that was refused would have been; using it is silent.
    Poison,
}

/// A list of values, and how deep lists nest in it.
#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<Value>,
    nesting: u16,
}

impl List {
    /// A list, unless it nests too deep.
    pub fn new(items: Vec<Value>) -> Option<Rc<Self>> {
        let inner = items.iter().map(|item| match item {
            Value::List(list) => list.nesting,
            _ => 0,
        });
        let nesting = inner.max().unwrap_or(0) + 1;
        (nesting <= MAX_LIST_NESTING).then(|| Rc::new(Self { items, nesting }))
    }
}

impl Value {
    /// What kind of thing it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "an integer",
            Value::Bool(_) => "a truth value",
            Value::Str(_) => "a text",
            Value::Range(..) => "a range",
            Value::Stepped(_) => "a range with steps",
            Value::List(_) => "a list",
            Value::Buffer(_) => "a buffer",
            Value::Region(_) => "a region",
            Value::Sum(_) => "a sum of regions",
            Value::EmptySum => "an empty sum",
            Value::Poison => "nothing",
        }
    }

    /// The elements of a range.
    pub fn progression(&self) -> Option<Progression> {
        match self {
            Value::Range(from, to) => Some(Progression::new(*from, *to, 1)),
            Value::Stepped(progression) => Some(*progression),
            _ => None,
        }
    }

    /// How many elements it has, if it is a list or a range.
    pub fn len(&self) -> Option<u64> {
        match self {
            Value::List(list) => Some(list.items.len() as u64),
            _ => self.progression().map(|progression| progression.count),
        }
    }

    /// Element `index` of a list or range, which must have it.
    pub fn element(&self, index: u64) -> Value {
        match self {
            Value::List(list) => list.items.get(index as usize).cloned().unwrap_or(Value::Poison),
            _ => match self.progression() {
                Some(progression) => Value::Int(progression.nth(index)),
                None => Value::Poison,
            },
        }
    }

    /// Whether two values are equal; `None` if they are of kinds that cannot be compared, or if
    /// that takes more than `steps` comparisons of elements, which are counted down.
    pub fn equals(&self, other: &Value, steps: &mut u64) -> Option<bool> {
        Some(match (self, other) {
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Int(a), Value::EmptySum) | (Value::EmptySum, Value::Int(a)) => *a == 0,
            (Value::EmptySum, Value::EmptySum) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Buffer(a), Value::Buffer(b)) => a == b,
            (Value::Region(a), Value::Region(b)) => a == b,
            (Value::Sum(a), Value::Sum(b)) => a == b,
            _ => match (self.progression(), other.progression()) {
                (Some(a), Some(b)) => a.equals(b),
                _ => return self.equals_list(other, steps),
            },
        })
    }

    fn equals_list(&self, other: &Value, steps: &mut u64) -> Option<bool> {
        let (length, others) = (self.len()?, other.len()?);
        if length != others {
            return Some(false);
        }
        for index in 0..length {
            *steps = steps.checked_sub(1)?;
            if !self.element(index).equals(&other.element(index), steps)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// As one would write it; lists are cut after a few elements.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Str(text) => write!(f, "\"{text}\""),
            Value::Range(from, to) => write!(f, "{from}..{to}"),
            Value::Stepped(_) | Value::List(_) => {
                let length = self.len().unwrap_or(0);
                let shown = (0..length.min(8)).map(|index| shown_within(&self.element(index)));
                let rest = if length > 8 { ", …" } else { "" };
                write!(f, "[{}{rest}]", shown.collect::<Vec<_>>().join(", "))
            }
            Value::Buffer(_) | Value::Region(_) | Value::Sum(_) => f.write_str(self.kind()),
            Value::EmptySum => f.write_str("0"),
            Value::Poison => f.write_str("?"),
        }
    }
}

fn shown_within(value: &Value) -> String {
    if let Value::List(_) = value { "[…]".to_owned() } else { value.to_string() }
}
