//! DE 43, card acceptor name and location: name (22), city (13), state or blank (3), country (2).

/// The place of a purchase, without the padding of the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MerchantLocation<'a> {
    /// Up to 22 characters.
    pub name: &'a str,
    /// Up to 13 characters.
    pub city: &'a str,
    /// Up to 3 characters, empty where there is none.
    pub state: &'a str,
    /// Two letters.
    pub country: &'a str,
}

const NAME: usize = 22;
const CITY: usize = 13;
const STATE: usize = 3;
const COUNTRY: usize = 2;
/// The length of the element.
pub const MERCHANT_LOCATION_LEN: usize = NAME + CITY + STATE + COUNTRY;

impl<'a> MerchantLocation<'a> {
    /// Splits the content of DE 43; none when it is not forty characters of ASCII.
    pub fn parse(content: &'a [u8]) -> Option<Self> {
        if content.len() != MERCHANT_LOCATION_LEN || !content.is_ascii() {
            return None;
        }
        let text = std::str::from_utf8(content).ok()?;
        let (name, rest) = text.split_at_checked(NAME)?;
        let (city, rest) = rest.split_at_checked(CITY)?;
        let (state, country) = rest.split_at_checked(STATE)?;
        let [name, city, state, country] = [name, city, state, country].map(str::trim_ascii);
        Some(Self { name, city, state, country })
    }

    /// The content of DE 43: each part cut or filled up to its width, characters beyond printable ASCII as `?`.
    pub fn to_content(&self) -> [u8; MERCHANT_LOCATION_LEN] {
        let mut content = [b' '; MERCHANT_LOCATION_LEN];
        let parts =
            [(self.name, NAME), (self.city, CITY), (self.state, STATE), (self.country, COUNTRY)];
        let mut places = content.iter_mut();
        for (text, width) in parts {
            let mut characters = text.chars();
            for place in places.by_ref().take(width) {
                if let Some(character) = characters.next() {
                    *place = printable(character);
                }
            }
        }
        content
    }
}

fn printable(character: char) -> u8 {
    const REPLACEMENT: u8 = b'?';
    if matches!(character, ' '..='~') {
        u8::try_from(character).unwrap_or(REPLACEMENT)
    } else {
        REPLACEMENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_without_padding() {
        let location =
            MerchantLocation { name: "Blue Bottle", city: "Oakland", state: "CA", country: "US" };
        let content = location.to_content();
        assert_eq!(&content, b"Blue Bottle           Oakland      CA US");
        assert_eq!(MerchantLocation::parse(&content), Some(location));
        let stateless = MerchantLocation { state: "", country: "DE", ..location };
        assert_eq!(MerchantLocation::parse(&stateless.to_content()), Some(stateless));
    }

    #[test]
    fn long_and_foreign_text_is_cut_and_replaced() {
        let location = MerchantLocation {
            name: "Café of the Extraordinarily Long Name",
            city: "São Paulo",
            state: "",
            country: "BRA",
        };
        assert_eq!(&location.to_content(), b"Caf? of the ExtraordinS?o Paulo       BR");
    }

    #[test]
    fn other_lengths_and_other_bytes_are_none() {
        assert_eq!(MerchantLocation::parse(&[b'x'; 39]), None);
        assert_eq!(MerchantLocation::parse(&[0xe9; 40]), None);
    }
}
