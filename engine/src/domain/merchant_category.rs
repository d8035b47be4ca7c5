//! Merchant category codes (ISO 18245) and their published groups, of which a card's scope is
//! composed.
//!
//! A scope value of 700 and above is that category code; one below 700 is a group. Both tables are
//! data files in `engine/data`, parsed once. The decision that a purchase is out of scope lives
//! elsewhere (`decision`), as does the JSON of GET /v1/merchant-categories (`api`).
//!
//! INVARIANT: group numbers lie in 1..=31, so that the groups of one code are one `u32` and
//! the question a decision asks is one table line and a few bit tests.

use std::sync::LazyLock;

/// The least scope value that is a category code; a lower value is a group.
pub const MCC_MIN: u16 = 700;

/// One more than the greatest category code.
const MCC_COUNT: usize = 10_000;

/// Group numbers are below this, so that each has a bit of a `u32`.
const GROUP_ID_LIMIT: u16 = 32;

/// One category code with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MerchantCategory {
    /// The four-digit code as a number.
    pub mcc: u16,
    /// The name in English.
    pub name: &'static str,
}

/// One published group of category codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MerchantCategoryGroup {
    /// The scope value, below 700.
    pub id: u16,
    /// The name in English.
    pub name: &'static str,
    /// The codes in it: inclusive ranges, ascending.
    pub ranges: Vec<(u16, u16)>,
}

/// Tells whether a purchase at a merchant of this category is within a card's scope.
///
/// An empty scope lets everything through; a message without a category passes no other scope.
/// Cost: O(values of the scope); one table line is touched.
pub fn is_in_scope(scope: &[u16], mcc: Option<u16>) -> bool {
    if scope.is_empty() {
        return true;
    }
    let Some(mcc) = mcc else { return false };
    let groups = TABLES.groups_of.get(usize::from(mcc)).copied().unwrap_or(0);
    scope.iter().any(|value| *value == mcc && mcc >= MCC_MIN || groups & group_bit(*value) != 0)
}

/// Tells whether a number may stand in a scope: a known group or a known category code.
pub fn exists(scope_value: u16) -> bool {
    if scope_value < MCC_MIN {
        group(scope_value).is_some()
    } else {
        category(scope_value).is_some()
    }
}

/// Finds a category by its code.
pub fn category(mcc: u16) -> Option<&'static MerchantCategory> {
    let at = TABLES.categories.binary_search_by_key(&mcc, |category| category.mcc).ok()?;
    TABLES.categories.get(at)
}

/// Finds a group by its number.
pub fn group(id: u16) -> Option<&'static MerchantCategoryGroup> {
    TABLES.groups.iter().find(|group| group.id == id)
}

/// All categories, by code.
pub fn categories() -> &'static [MerchantCategory] {
    &TABLES.categories
}

/// All groups, by number.
pub fn groups() -> &'static [MerchantCategoryGroup] {
    &TABLES.groups
}

/// The version of the group table.
pub fn groups_version() -> u32 {
    TABLES.groups_version
}

/// The bit of a group; none for a number that no group can have.
const fn group_bit(id: u16) -> u32 {
    if id < GROUP_ID_LIMIT { 1 << id } else { 0 }
}

/// Both files, parsed, and the groups of every code as bits.
struct CategoryTables {
    categories: Vec<MerchantCategory>,
    groups: Vec<MerchantCategoryGroup>,
    groups_version: u32,
    groups_of: Box<[u32]>,
}

static TABLES: LazyLock<CategoryTables> = LazyLock::new(|| {
    let categories_text = include_str!("../../data/merchant_categories.csv");
    let groups_text = include_str!("../../data/merchant_category_groups.csv");
    CategoryTables::parse(categories_text, groups_text)
        .expect("both tables are compiled in and a unit test parses them")
});

impl CategoryTables {
    fn parse(categories_text: &'static str, groups_text: &'static str) -> Option<Self> {
        let categories: Vec<_> =
            rows(categories_text).map(parse_category).collect::<Option<Vec<_>>>()?;
        let groups: Vec<_> = rows(groups_text).map(parse_group).collect::<Option<Vec<_>>>()?;
        let version_line = groups_text.lines().find_map(|line| line.strip_prefix("# version "))?;
        Some(Self {
            groups_of: groups_of_each_code(&groups),
            categories,
            groups,
            groups_version: version_line.trim().parse().ok()?,
        })
    }
}

/// The lines of a table below its comments and its heading.
fn rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).skip(1)
}

/// Parses `0742,Veterinary services`; a name with commas stands in quotes and holds none itself.
fn parse_category(line: &'static str) -> Option<MerchantCategory> {
    let (mcc, name) = line.split_once(',')?;
    Some(MerchantCategory { mcc: mcc.parse().ok()?, name: name.trim_matches('"') })
}

/// Parses `3,Lodging,3501-3999;7011-7012`.
fn parse_group(line: &'static str) -> Option<MerchantCategoryGroup> {
    let mut columns = line.split(',');
    let id = columns.next()?.parse().ok().filter(|id| (1..GROUP_ID_LIMIT).contains(id))?;
    let name = columns.next()?;
    let ranges = columns.next()?.split(';').map(parse_range).collect::<Option<Vec<_>>>()?;
    Some(MerchantCategoryGroup { id, name, ranges })
}

/// Parses `3501-3999` or `7011`.
fn parse_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range: (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (range.0 <= range.1 && range.0 >= MCC_MIN && usize::from(range.1) < MCC_COUNT).then_some(range)
}

fn groups_of_each_code(groups: &[MerchantCategoryGroup]) -> Box<[u32]> {
    let mut groups_of = vec![0_u32; MCC_COUNT].into_boxed_slice();
    for group in groups {
        for (first, last) in &group.ranges {
            for bits in &mut groups_of[usize::from(*first)..=usize::from(*last)] {
                *bits |= group_bit(group.id);
            }
        }
    }
    groups_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_are_ordered_and_complete() {
        assert!(categories().len() > 900);
        assert!(categories().windows(2).all(|pair| pair[0].mcc < pair[1].mcc));
        assert!(categories().iter().all(|category| !category.name.is_empty()));
        assert!(groups().windows(2).all(|pair| pair[0].id < pair[1].id));
        assert_eq!(groups_version(), 1);
        assert_eq!(category(5812).unwrap().name, "Eating places and restaurants");
        assert_eq!(group(3).unwrap().ranges[0], (3501, 3999));
    }

    #[test]
    fn every_group_holds_a_known_code() {
        for group in groups() {
            let known =
                categories().iter().any(|category| is_in_scope(&[group.id], Some(category.mcc)));
            assert!(known, "group {} has no known code", group.id);
        }
    }

    #[test]
    fn scope_admits_by_code_and_by_group() {
        let rows: &[(&[u16], Option<u16>, bool)] = &[
            (&[], None, true),
            (&[], Some(5812), true),
            (&[5812], Some(5812), true),
            (&[5812], Some(5814), false),
            (&[5812], None, false),
            (&[10], Some(5814), true),
            (&[10], Some(5813), false),
            (&[3], Some(3501), true),
            (&[3], Some(3500), false),
            (&[2], Some(3500), true),
            (&[1, 3], Some(7011), true),
            (&[24], Some(7997), true),
            (&[25], Some(7997), true),
            (&[5812, 7], Some(5542), true),
            // A number below 700 is a group, never a code; one beyond four digits is nothing.
            (&[10], Some(10), false),
            (&[699], Some(699), false),
            (&[31], Some(5812), false),
            (&[10], Some(10_000), false),
        ];
        for (scope, mcc, expected) in rows {
            assert_eq!(is_in_scope(scope, *mcc), *expected, "{scope:?} {mcc:?}");
        }
    }

    #[test]
    fn only_published_numbers_exist() {
        for (value, expected) in [
            (0, false),
            (1, true),
            (28, true),
            (29, false),
            (699, false),
            (742, true),
            (700, false),
        ] {
            assert_eq!(exists(value), expected, "{value}");
        }
        assert!(exists(9950) && !exists(9999) && !exists(u16::MAX));
    }

    #[test]
    fn a_bad_line_is_refused() {
        for line in
            ["32,Too far,5811", "1,Backwards,5812-5811", "1,Reserved,0-800", "1,Far,9000-10000"]
        {
            assert_eq!(parse_group(line), None, "{line}");
        }
    }
}
