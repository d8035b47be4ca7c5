//! Further words on the page of a transaction: sizes of files, and the flags that reviewers look
//! for.

use cardswitch_engine::domain::money::Minor;

/// A number of bytes.
pub(super) fn size_words(bytes: u32) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KiB", bytes.div_ceil(1_024)),
        _ => format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20),
    }
}

/// The flags that reviewers look for, in words. Source: `TransactionFlags`, names.
pub(super) fn flag_words(name: &str) -> &str {
    match name {
        "advice" => "Stand-in decision by the network (advice).",
        "forced" => "Force-posted.",
        "over_cleared" => "Settled above the hold.",
        "after_final" => "Something was posted after its final presentment.",
        "consumed_single_use" => "Used a single-use card.",
        "hold_expired" => "Hold expired.",
        "over_refunded" => "Over-refunded.",
        "partially_approved" => "Partially approved.",
        "returned" => "The transfer came back.",
        other => other,
    }
}

/// The other direction.
pub(super) fn positive(amount: Minor) -> Minor {
    if amount.0 < 0 { -amount } else { amount }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::transaction::TransactionFlags;

    use super::*;

    #[test]
    fn sizes_are_told_in_few_digits() {
        let rows = [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_024, "1 KiB"),
            (1_025, "2 KiB"),
            (1_048_576, "1.0 MiB"),
            (10_485_760, "10.0 MiB"),
            (1_600_000, "1.5 MiB"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(size_words(bytes), expected);
        }
    }

    #[test]
    fn every_flag_has_words_of_its_own() {
        for name in TransactionFlags(u16::MAX).names() {
            assert_ne!(flag_words(name), name, "{name}");
        }
    }
}
