//! Categories, departments, labels and locations: their places in the tree, their codes, their
//! carriers, and the consequences of a deletion.

use std::collections::BTreeMap;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, NetworkCommand, PartialApproval,
};
use cardswitch_engine::command::record::{Record, records};
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::card::{CardChanges, CardCommand};
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::dimension::{
    Dimension, DimensionChanges, DimensionCommand, NamedDimension, NewDimension,
};
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::{DimensionKind, Dimensions};
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::{DimensionId, DimensionSlot, Timestamp, TransactionSeq};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction_tags::TagChanges;
use cardswitch_engine::limits;
use cardswitch_engine::shard::ShardState;
use uuid::Uuid;

use crate::driver::Driver;
use crate::samples::{START, admin, company_id, facts, network, new_card, new_company, pan};

const CATEGORY: DimensionKind = DimensionKind::Category;
const LABEL: DimensionKind = DimensionKind::Label;

/// A shard with two companies and one card of the first, asked once a second.
struct Books {
    driver: Driver,
    at: i64,
}

fn id(number: u64) -> DimensionId {
    DimensionId(Uuid::from_u64_pair(9, number))
}

fn named(kind: DimensionKind, number: u64) -> NamedDimension {
    NamedDimension { company: company_id(0), kind, id: id(number) }
}

fn new(number: u64, code: Option<&str>, parent: Option<u64>) -> NewDimension {
    NewDimension {
        id: id(number),
        company: company_id(0),
        kind: CATEGORY,
        name: format!("Category {number}").parse().unwrap(),
        code: code.map(str::to_owned),
        parent: parent.map(id),
    }
}

impl Books {
    fn open() -> Self {
        let mut books = Self { driver: Driver::new(ShardState::default()), at: START };
        for number in [0, 1] {
            let company = new_company(number, chrono_tz::UTC, 1_000_000, 0);
            books.change(AdminCommand::Company(CompanyCommand::Create(company))).unwrap();
        }
        let terms = AllowanceTerms::budget(Minor(100_000));
        books.change(AdminCommand::Card(CardCommand::Issue(new_card(1, 0, terms)))).unwrap();
        books
    }

    fn change(&mut self, command: AdminCommand) -> Result<(), Rejection> {
        self.at += 1_000_000;
        match self.driver.run(Timestamp(self.at), &admin(command)) {
            Reply::Done(_) => Ok(()),
            Reply::Rejected(rejection) => Err(rejection),
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, new: NewDimension) -> Result<(), Rejection> {
        self.change(AdminCommand::Dimension(DimensionCommand::Create(new)))
    }

    fn delete(&mut self, number: u64) -> Result<(), Rejection> {
        self.change(AdminCommand::Dimension(DimensionCommand::Delete(named(CATEGORY, number))))
    }

    fn set_parent(&mut self, number: u64, parent: Option<u64>) -> Result<(), Rejection> {
        let changes = DimensionChanges { parent: Some(parent.map(id)), ..Default::default() };
        self.change(AdminCommand::Dimension(DimensionCommand::Update(
            named(CATEGORY, number),
            changes,
        )))
    }

    fn set_code(&mut self, number: u64, code: Option<&str>) -> Result<(), Rejection> {
        let code = Some(code.map(str::to_owned));
        let changes = DimensionChanges { code, ..Default::default() };
        self.change(AdminCommand::Dimension(DimensionCommand::Update(
            named(CATEGORY, number),
            changes,
        )))
    }

    fn set_on_card(
        &mut self,
        dimensions: [Option<Option<DimensionId>>; 4],
    ) -> Result<(), Rejection> {
        let card = new_card(1, 0, AllowanceTerms::budget(Minor(1))).id;
        let changes = CardChanges { dimensions, ..Default::default() };
        self.change(AdminCommand::Card(CardCommand::Update(company_id(0), card, changes)))
    }

    fn tag(&mut self, seq: u64, changes: TagChanges) -> Result<(), Rejection> {
        let id = self.driver.ids.transaction_id(Timestamp(START), TransactionSeq(seq));
        self.change(AdminCommand::Transaction(TransactionCommand::Tag(company_id(0), id, changes)))
    }

    fn buy(&mut self, mark: u64) {
        self.at += 1_000_000;
        let command = network(NetworkCommand::Authorize(Authorize {
            facts: facts(pan(1), 100, mark),
            kind: AuthorizationKind::Purchase,
            credentials: PresentedCredentials::default(),
            partial: PartialApproval::default(),
        }));
        self.driver.run(Timestamp(self.at), &command);
    }

    fn records(&self) -> Vec<Record> {
        records(&self.driver.payload).collect::<Result<_, _>>().unwrap()
    }

    fn last_record(&self) -> Record {
        self.records().pop().unwrap()
    }

    /// Every dimension as the records say it stands.
    fn rows(&self) -> BTreeMap<DimensionSlot, Dimension> {
        let effects = self.records().into_iter().flat_map(|record| record.effects);
        let rows = effects.filter_map(|effect| match effect {
            Effect::Row(DirectoryRow::Dimension(row)) => Some((row.slot, *row)),
            _ => None,
        });
        rows.collect()
    }

    fn row(&self, number: u64) -> Dimension {
        self.rows().into_values().find(|row| row.id == id(number)).unwrap()
    }

    /// The dimension that stands above another.
    fn parent(&self, number: u64) -> Option<DimensionId> {
        let rows = self.rows();
        self.row(number).parent.map(|slot| rows[&slot].id)
    }
}

#[test]
fn codes_are_unique_per_company_and_kind_and_free_again_after_deletion() {
    let mut books = Books::open();
    let taken = Err(Rejection::DimensionCodeTaken);
    books.create(new(1, Some("100"), None)).unwrap();
    assert_eq!(books.create(new(2, Some("100"), None)), taken);
    // Codes are texts: a zero in front makes another code.
    books.create(new(2, Some("0100"), None)).unwrap();
    books.create(NewDimension { kind: LABEL, ..new(3, Some("100"), None) }).unwrap();
    books.create(NewDimension { company: company_id(1), ..new(4, Some("100"), None) }).unwrap();
    books.create(new(5, None, None)).unwrap();
    books.create(new(6, None, None)).unwrap();

    assert_eq!(books.set_code(2, Some("100")), taken);
    assert_eq!(books.set_code(1, Some("100")), Ok(()), "its own");
    books.set_code(1, Some("7")).unwrap();
    books.set_code(2, Some("100")).unwrap();
    assert_eq!(books.set_code(1, Some("100")), taken);
    books.set_code(2, None).unwrap();
    books.set_code(1, Some("100")).unwrap();
    books.delete(1).unwrap();
    books.create(new(7, Some("100"), None)).unwrap();
    assert_eq!(books.row(7).code.as_deref(), Some("100"));
}

#[test]
fn dimensions_are_found_by_company_and_kind_until_they_are_deleted() {
    let mut books = Books::open();
    books.create(new(1, None, None)).unwrap();
    assert_eq!(books.create(new(1, None, None)), Err(Rejection::IdTaken));
    let gone = Err(Rejection::NotFound);
    let foreign = NamedDimension { company: company_id(1), ..named(CATEGORY, 1) };
    let of_nobody = NamedDimension { company: company_id(7), ..named(CATEGORY, 1) };
    let rows = [
        (named(LABEL, 1), gone),
        (named(CATEGORY, 2), gone),
        (foreign, gone),
        (of_nobody, Err(Rejection::CompanyNotFound)),
    ];
    for (named, expected) in rows {
        let name = Some("Travel".parse().unwrap());
        let changes = DimensionChanges { name, ..Default::default() };
        let update = AdminCommand::Dimension(DimensionCommand::Update(named, changes));
        assert_eq!(books.change(update), expected, "{named:?}");
        assert_eq!(
            books.change(AdminCommand::Dimension(DimensionCommand::Delete(named))),
            expected,
            "{named:?}"
        );
    }
    books.delete(1).unwrap();
    assert!(books.row(1).is_deleted);
    assert_eq!(books.delete(1), gone);
    assert_eq!(books.set_code(1, None), gone);
    assert_eq!(books.create(new(1, None, None)), Err(Rejection::IdTaken), "ids never come back");
}

#[test]
fn what_changes_nothing_is_no_record() {
    let mut books = Books::open();
    books.create(new(1, Some("1"), None)).unwrap();
    let count = books.records().len();
    books.set_code(1, Some("1")).unwrap();
    books.set_parent(1, None).unwrap();
    books.tag(0, TagChanges::default()).unwrap();
    assert_eq!(books.records().len(), count);
    // A card with a dimension that is gone is not brought in order by the way.
    books.set_on_card([Some(Some(id(1))), None, None, None]).unwrap();
    books.delete(1).unwrap();
    let count = books.records().len();
    books.set_on_card([None; 4]).unwrap();
    assert_eq!(books.records().len(), count);
}

#[test]
fn parents_are_live_and_of_the_same_company_and_kind() {
    let mut books = Books::open();
    books.create(new(1, None, None)).unwrap();
    books.create(NewDimension { kind: LABEL, ..new(2, None, None) }).unwrap();
    books.create(NewDimension { company: company_id(1), ..new(3, None, None) }).unwrap();
    books.create(new(4, None, None)).unwrap();
    books.delete(4).unwrap();
    for parent in [2, 3, 4, 5] {
        let missing = Err(Rejection::ParentNotFound);
        assert_eq!(books.create(new(10 + parent, None, Some(parent))), missing, "{parent}");
        assert_eq!(books.set_parent(1, Some(parent)), missing, "{parent}");
    }
    books.create(new(20, None, Some(1))).unwrap();
    assert_eq!(books.parent(20), Some(id(1)));
}

#[test]
fn nobody_stands_below_itself() {
    let mut books = Books::open();
    books.create(new(1, None, None)).unwrap();
    books.create(new(2, None, Some(1))).unwrap();
    books.create(new(3, None, Some(2))).unwrap();
    for parent in [1, 2, 3] {
        assert_eq!(books.set_parent(1, Some(parent)), Err(Rejection::ParentCycle), "{parent}");
    }
    assert_eq!(books.set_parent(2, Some(3)), Err(Rejection::ParentCycle));
    books.set_parent(3, Some(1)).unwrap();
    books.set_parent(2, Some(3)).unwrap();
    assert_eq!((books.parent(2), books.parent(3)), (Some(id(3)), Some(id(1))));
}

#[test]
fn trees_have_ten_levels_whichever_end_grows() {
    let mut books = Books::open();
    let levels = limits::DIMENSION_LEVELS_MAX as u64;
    books.create(new(1, None, None)).unwrap();
    for number in 2..=levels {
        books.create(new(number, None, Some(number - 1))).unwrap();
    }
    let too_deep = Err(Rejection::TreeTooDeep);
    assert_eq!(books.create(new(11, None, Some(levels))), too_deep);
    // A tree of two levels fits below the eighth, and no tree at all above the first.
    books.create(new(20, None, None)).unwrap();
    books.create(new(21, None, Some(20))).unwrap();
    assert_eq!(books.set_parent(20, Some(levels - 1)), too_deep);
    books.set_parent(20, Some(levels - 2)).unwrap();
    books.create(new(30, None, None)).unwrap();
    assert_eq!(books.set_parent(1, Some(30)), too_deep);
    // A tree that fills its levels still moves to the side, and up.
    books.create(new(40, None, Some(1))).unwrap();
    books.create(new(41, None, Some(40))).unwrap();
    for parent in [40, 2, 1] {
        books.set_parent(3, Some(parent)).unwrap();
    }
    assert_eq!(books.set_parent(3, Some(41)), too_deep);
    books.set_parent(3, Some(2)).unwrap();
    // The tree fits with one level less.
    books.delete(5).unwrap();
    books.set_parent(1, Some(30)).unwrap();
}

#[test]
fn children_are_lifted_in_the_record_of_the_deletion() {
    let mut books = Books::open();
    books.create(new(1, None, None)).unwrap();
    books.create(new(2, Some("2"), Some(1))).unwrap();
    for number in [3, 4] {
        books.create(new(number, None, Some(2))).unwrap();
    }
    books.create(new(5, None, Some(4))).unwrap();
    books.delete(2).unwrap();
    assert_eq!(books.last_record().effects.len(), 3, "two children and the tombstone");
    let parents: Vec<_> = [3, 4, 5].map(|number| books.parent(number)).into();
    assert_eq!(parents, [Some(id(1)), Some(id(1)), Some(id(4))]);
    books.delete(1).unwrap();
    assert_eq!((books.parent(3), books.parent(4)), (None, None));
    books.delete(5).unwrap();
    assert_eq!(books.last_record().effects.len(), 1);
}

#[test]
fn nobody_has_more_children_than_one_record_lifts() {
    let mut books = Books::open();
    let most = limits::DIMENSION_CHILDREN_MAX as u64;
    let named_long = |number: u64, parent: Option<u64>| NewDimension {
        name: "é".repeat(limits::DIMENSION_NAME_BYTES_MAX / 2).parse().unwrap(),
        code: Some(format!("{number:0>width$}", width = limits::DIMENSION_CODE_DIGITS_MAX)),
        ..new(number, None, parent)
    };
    books.create(named_long(1, None)).unwrap();
    books.create(named_long(2, Some(1))).unwrap();
    for number in 0..most {
        books.create(named_long(10 + number, Some(2))).unwrap();
    }
    let too_many = Err(Rejection::TooManyChildren);
    assert_eq!(books.create(new(5_000, None, Some(2))), too_many);
    books.create(new(5_000, None, Some(1))).unwrap();
    assert_eq!(books.set_parent(5_000, Some(2)), too_many);
    // The grandparent keeps one of its own, so it cannot take all.
    assert_eq!(books.delete(2), too_many);
    books.set_parent(5_000, None).unwrap();
    books.delete(2).unwrap();
    assert_eq!(books.last_record().effects.len() as u64, most + 1);
    let ends = &books.driver.ends;
    let record_bytes = ends[ends.len() - 1] - ends[ends.len() - 2];
    assert!(record_bytes > limits::RECORD_BYTES_MAX / 2, "the longest names: {record_bytes}");
    assert_eq!(books.create(new(5_001, None, Some(1))), too_many);
    books.delete(1).unwrap();
    assert_eq!(books.parent(10), None);
}

#[test]
fn cards_and_transactions_take_live_dimensions_of_their_company_and_kind() {
    let mut books = Books::open();
    books.create(new(1, None, None)).unwrap();
    books.create(NewDimension { kind: LABEL, ..new(2, None, None) }).unwrap();
    books.create(NewDimension { company: company_id(1), ..new(3, None, None) }).unwrap();
    books.create(new(4, None, None)).unwrap();
    books.delete(4).unwrap();
    books.buy(1);
    let unknown = |kind| Err(Rejection::DimensionNotFound(kind));
    let rows = [
        ([Some(Some(id(1))), None, None, None], Ok(())),
        ([None, None, Some(Some(id(2))), None], Ok(())),
        ([Some(Some(id(1))), None, Some(Some(id(2))), Some(None)], Ok(())),
        ([None, Some(Some(id(1))), None, None], unknown(DimensionKind::Department)),
        ([Some(Some(id(3))), None, None, None], unknown(CATEGORY)),
        ([Some(Some(id(4))), None, None, None], unknown(CATEGORY)),
        ([Some(Some(id(5))), None, None, None], unknown(CATEGORY)),
        ([Some(Some(id(1))), None, None, Some(Some(id(2)))], unknown(DimensionKind::Location)),
        ([Some(None); 4], Ok(())),
        ([None; 4], Ok(())),
    ];
    for (dimensions, expected) in rows {
        assert_eq!(books.set_on_card(dimensions), expected, "{dimensions:?}");
        let changes = TagChanges { dimensions, ..TagChanges::default() };
        assert_eq!(books.tag(1, changes), expected, "{dimensions:?}");
        let mut card = new_card(2 + books.at as u64, 0, AllowanceTerms::budget(Minor(1)));
        card.order.dimensions = dimensions.map(Option::flatten);
        assert_eq!(
            books.change(AdminCommand::Card(CardCommand::Issue(card))),
            expected,
            "{dimensions:?}"
        );
    }
    let note = TagChanges { note: Some("lunch".parse().unwrap()), ..TagChanges::default() };
    assert_eq!(books.tag(1_000, note.clone()), Err(Rejection::TransactionNotFound));
    books.tag(1, note.clone()).unwrap();
    let expected = Effect::TransactionTags(TransactionSeq(1), Box::new(note));
    assert_eq!(books.last_record().effects, [expected]);
}

/// The dimensions of the transaction in the last record.
fn made_with(books: &Books) -> Dimensions {
    let found = books.last_record().effects.into_iter().find_map(|effect| match effect {
        Effect::Transaction(made) => Some(made.record.dimensions),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn new_transactions_receive_the_cards_dimensions_also_those_that_are_gone() {
    let mut books = Books::open();
    books.create(new(1, None, None)).unwrap();
    books.create(NewDimension { kind: LABEL, ..new(2, None, None) }).unwrap();
    books.set_on_card([Some(Some(id(1))), None, Some(Some(id(2))), None]).unwrap();
    books.buy(1);
    assert_eq!(made_with(&books), [Some(id(1)), None, Some(id(2)), None]);

    books.delete(1).unwrap();
    assert_eq!(books.last_record().effects.len(), 1, "neither cards nor transactions are touched");
    books.set_on_card([None, None, Some(None), None]).unwrap();
    books.buy(2);
    assert_eq!(made_with(&books), [Some(id(1)), None, None, None]);
}

#[test]
fn a_replay_of_the_records_follows_the_same_rules() {
    let mut books = Books::open();
    books.create(new(1, Some("1"), None)).unwrap();
    books.create(new(2, Some("2"), Some(1))).unwrap();
    books.create(new(3, Some("3"), Some(2))).unwrap();
    books.delete(2).unwrap();
    let mut replayed = ShardState::default();
    for record in books.records() {
        replayed.apply_record(record.seq, record.at, &record.effects);
    }
    assert_eq!(replayed.part_hashes(), books.driver.state.part_hashes());
    books.driver.state = replayed;
    assert_eq!(books.set_parent(1, Some(3)), Err(Rejection::ParentCycle));
    assert_eq!(books.create(new(4, Some("3"), None)), Err(Rejection::DimensionCodeTaken));
    assert_eq!(books.delete(2), Err(Rejection::NotFound));
    books.create(new(4, Some("2"), Some(3))).unwrap();
}
