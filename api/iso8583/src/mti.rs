//! The message type identifier: four digits for version, class, function and origin.

use std::fmt;

/// A message type identifier of four ASCII digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mti([u8; 4]);

impl Mti {
    /// 0100.
    pub const AUTHORIZATION_REQUEST: Self = Self(*b"0100");
    /// 0110.
    pub const AUTHORIZATION_RESPONSE: Self = Self(*b"0110");
    /// 0120.
    pub const AUTHORIZATION_ADVICE: Self = Self(*b"0120");
    /// 0200.
    pub const FINANCIAL_REQUEST: Self = Self(*b"0200");
    /// 0220, the presentment.
    pub const FINANCIAL_ADVICE: Self = Self(*b"0220");
    /// 0400.
    pub const REVERSAL_REQUEST: Self = Self(*b"0400");
    /// 0420.
    pub const REVERSAL_ADVICE: Self = Self(*b"0420");
    /// 0800: sign-on, sign-off, echo.
    pub const NETWORK_REQUEST: Self = Self(*b"0800");

    /// Reads four ASCII digits; anything else is none.
    pub const fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [a, b, c, d]
                if a.is_ascii_digit()
                    && b.is_ascii_digit()
                    && c.is_ascii_digit()
                    && d.is_ascii_digit() =>
            {
                Some(Self([*a, *b, *c, *d]))
            }
            _ => None,
        }
    }

    /// The four ASCII digits.
    pub const fn bytes(self) -> [u8; 4] {
        self.0
    }

    /// The four ASCII digits as text.
    pub fn as_str(&self) -> &str {
        // INVARIANT: only ASCII digits get in.
        std::str::from_utf8(&self.0).unwrap_or("????")
    }

    /// First digit: 0 is ISO 8583:1987.
    pub const fn version(self) -> u8 {
        self.0[0] - b'0'
    }

    /// Second digit: 1 authorization, 2 financial, 4 reversal, 8 network management.
    pub const fn class(self) -> u8 {
        self.0[1] - b'0'
    }

    /// Third digit: 0 request, 1 its response, 2 advice, 3 its response.
    pub const fn function(self) -> u8 {
        self.0[2] - b'0'
    }

    /// Fourth digit: the sender, odd for a repeat.
    pub const fn origin(self) -> u8 {
        self.0[3] - b'0'
    }

    /// Whether this answers another message; such a message is never answered itself.
    pub const fn is_response(self) -> bool {
        self.function() % 2 == 1
    }

    /// Whether the sender says that it sent the same before.
    pub const fn is_repeat(self) -> bool {
        self.origin() % 2 == 1
    }

    /// Whether this is an advice: it tells what happened and is not to be refused.
    pub const fn is_advice(self) -> bool {
        self.function() == 2
    }

    /// The same message as if sent for the first time: 0121 gives 0120.
    #[must_use]
    pub const fn without_repeat(self) -> Self {
        let [version, class, function, origin] = self.0;
        Self([version, class, function, b'0' + ((origin - b'0') & !1)])
    }

    /// The type that answers this one: 0101 gives 0110, 0121 gives 0130. None for what is never answered: responses and
    /// functions above advice (notifications).
    pub const fn response(self) -> Option<Self> {
        match self.function() {
            0 | 2 => {
                let [version, class, function, origin] = self.without_repeat().0;
                Some(Self([version, class, function + 1, origin]))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Mti {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Mti {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mti({})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mti(digits: &str) -> Mti {
        Mti::parse(digits.as_bytes()).unwrap()
    }

    #[test]
    fn each_request_has_its_response_and_repeats_are_answered_as_first_sendings() {
        for (request, response) in [
            ("0100", "0110"),
            ("0101", "0110"),
            ("0120", "0130"),
            ("0121", "0130"),
            ("0200", "0210"),
            ("0201", "0210"),
            ("0220", "0230"),
            ("0221", "0230"),
            ("0400", "0410"),
            ("0401", "0410"),
            ("0420", "0430"),
            ("0421", "0430"),
            ("0800", "0810"),
            ("0500", "0510"),
            ("0123", "0132"),
        ] {
            assert_eq!(mti(request).response(), Some(mti(response)), "{request}");
        }
    }

    #[test]
    fn responses_and_notifications_are_never_answered() {
        for digits in ["0110", "0130", "0210", "0410", "0430", "0810", "0140", "0199"] {
            assert_eq!(mti(digits).response(), None, "{digits}");
        }
        assert!(mti("0110").is_response() && !mti("0120").is_response());
    }

    #[test]
    fn the_last_digit_tells_a_repeat() {
        assert!(mti("0101").is_repeat() && mti("0421").is_repeat() && !mti("0100").is_repeat());
        assert_eq!(mti("0421").without_repeat(), Mti::REVERSAL_ADVICE);
        assert_eq!(mti("0423").without_repeat(), mti("0422"));
        let parts = mti("0421");
        assert_eq!(
            (parts.version(), parts.class(), parts.function(), parts.origin()),
            (0, 4, 2, 1)
        );
    }

    #[test]
    fn only_four_digits_are_a_message_type() {
        for bytes in [&b""[..], b"010", b"01000", b"01a0", b"\x01\x00\x00\x00", b" 100"] {
            assert_eq!(Mti::parse(bytes), None);
        }
    }
}
