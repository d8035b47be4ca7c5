//! Draws values of stored types: all fields, lengths and variants of whatever can be read from bytes. So
//! new rows and new fields are drawn without a line here.
//!
//! A slot is one of few, so that rows refer to each other; an instant is near the present one. Values
//! follow the names of fields and variants, not their order: two that change places are other bytes.

use serde::de::value::Error;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, SeqAccess,
    VariantAccess, Visitor,
};

use super::world::COMPANIES;
use crate::domain::ids::Timestamp;
use crate::journal::testing::next_random;

/// The number of slots of a kind that drawn values refer to.
const SLOTS: u64 = 4;
/// The most entries of a list.
const ENTRIES_MAX: u64 = 3;
/// Texts that stand for any. One of the types that read them knows names of time zones only.
const ZONES: [&str; 3] = ["UTC", "Asia/Tokyo", "America/New_York"];

/// A value, drawn again until its type takes it.
pub(super) fn draw<T: DeserializeOwned>(random: &mut u64, at: Timestamp) -> T {
    loop {
        if let Ok(value) = T::deserialize(Drawing { random, at }) {
            return value;
        }
    }
}

struct Drawing<'r> {
    random: &'r mut u64,
    at: Timestamp,
}

/// A seed of its own for what has this name.
fn seed_of(name: &str, seed: u64) -> u64 {
    name.bytes().fold(seed, |seed, byte| next_random(&mut (seed ^ u64::from(byte))))
}

impl Drawing<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        next_random(self.random) % bound
    }

    fn text(&mut self) -> String {
        (0..12).map(|_| char::from(b'a' + self.small(26))).collect()
    }

    fn small(&mut self, bound: u64) -> u8 {
        u8::try_from(self.below(bound)).unwrap()
    }
}

macro_rules! draw_numbers {
    ($($deserialize:ident $visit:ident $number:ty,)+) => {$(
        fn $deserialize<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            let most = u64::try_from(<$number>::MAX).unwrap_or(u64::MAX).min(1 << 40);
            visitor.$visit(<$number>::try_from(self.below(most)).unwrap())
        }
    )+};
}

impl<'de> Deserializer<'de> for Drawing<'_> {
    type Error = Error;

    draw_numbers! {
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128,
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_i128 visit_i128 i128,
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("stored bytes do not name their types"))
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.below(2) == 0)
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(ZONES[usize::from(self.small(3))])
    }

    fn deserialize_string<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bytes(&[(); 16].map(|()| self.small(256)))
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if self.below(2) == 0 { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let slots = if name == "CompanySlot" { COMPANIES.into() } else { SLOTS };
        match name {
            "Timestamp" => {
                let later = i64::try_from(self.below(100)).unwrap() * Timestamp::SECOND;
                visitor.visit_newtype_struct(self.at.plus(later).0.into_deserializer())
            }
            _ if name.ends_with("Slot") => {
                let slot = u32::try_from(self.below(slots)).unwrap();
                visitor.visit_newtype_struct(slot.into_deserializer())
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let len = usize::from(self.small(ENTRIES_MAX + 1));
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements { drawing: self, names: std::iter::repeat_n("", len) })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements { drawing: self, names: fields.iter().copied() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let seed = next_random(self.random);
        let number = (0..variants.len()).max_by_key(|number| seed_of(variants[*number], seed));
        let number = u32::try_from(number.unwrap()).unwrap();
        visitor.visit_enum(Variant { drawing: self, number })
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char byte_buf unit unit_struct tuple_struct map identifier ignored_any
    }
}

struct Elements<'r, N> {
    drawing: Drawing<'r>,
    names: N,
}

impl<'de, N: Iterator<Item = &'static str>> SeqAccess<'de> for Elements<'_, N> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(name) = self.names.next() else { return Ok(None) };
        let random = &mut seed_of(name, next_random(self.drawing.random));
        seed.deserialize(Drawing { random, at: self.drawing.at }).map(Some)
    }
}

struct Variant<'r> {
    drawing: Drawing<'r>,
    number: u32,
}

impl<'de, 'r> EnumAccess<'de> for Variant<'r> {
    type Error = Error;
    type Variant = Drawing<'r>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Drawing<'r>), Error> {
        let number: de::value::U32Deserializer<Error> = self.number.into_deserializer();
        Ok((seed.deserialize(number)?, self.drawing))
    }
}

impl<'de> VariantAccess<'de> for Drawing<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}
