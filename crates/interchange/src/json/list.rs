//! Lists that are converted item by item, so that a large algorithm never exists twice.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// A part of the IR that comes in long lists.
pub(super) trait ListItem: Sized {
    /// What such a list is called in a complaint.
    const LIST: &'static str;
    /// The item as it is written.
    type Out<'a>: Serialize
    where
        Self: 'a;
    /// The item as it is read.
    type In: for<'de> Deserialize<'de>;

    fn to_wire(&self) -> Self::Out<'_>;
    fn from_wire(wire: Self::In) -> Self;
}

/// A list to write.
pub(super) struct ListOut<'a, T>(pub &'a [T]);

/// A list that was read.
pub(super) struct ListIn<T>(pub Vec<T>);

impl<T: ListItem> Serialize for ListOut<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ListItem::to_wire))
    }
}

impl<'de, T: ListItem> Deserialize<'de> for ListIn<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

struct Items<T>(PhantomData<T>);

impl<'de, T: ListItem> Visitor<'de> for Items<T> {
    type Value = ListIn<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::LIST)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ListIn<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(T::from_wire(item));
        }
        Ok(ListIn(items))
    }
}
