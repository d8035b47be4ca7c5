//! The members of a company, the newest first. GET /members.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::{Member, MemberState};
use cardswitch_engine::domain::search_key::search_key;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::ListPage;
use cardswitch_v1::routes::view::View;

use super::{member_badge, role_words};
use crate::choices::{Choice, choices};
use crate::frame;
use crate::pager::{ListForm, Pager};
use crate::rights::{MemberReader, Right};
use crate::words::{Badge, person};

/// Whether a member passes the filter: by state, and by the text in their name, address or employee
/// id.
fn accepts(query: &ListForm, member: &Member) -> bool {
    let is_in_state = match query.of("state") {
        "active" => member.state == MemberState::Active,
        "inactive" => member.state == MemberState::Inactive,
        _ => true,
    };
    let (first, last) = (&member.first_name, &member.last_name);
    let known = search_key(&format!("{first} {last} {} ", member.email));
    let code = member.code.as_deref().unwrap_or_default();
    let mut words = query.of("q").split_whitespace().map(search_key);
    is_in_state && words.all(|word| known.contains(&word) || code == word)
}

#[derive(Template)]
#[template(path = "members/list.html")]
struct MemberListContent<'a> {
    company: &'a str,
    may_manage: bool,
    q: &'a str,
    states: Vec<Choice>,
    is_filtered: bool,
    rows: Vec<MemberLine>,
    pager: Pager,
}

struct MemberLine {
    id: String,
    name: String,
    email: String,
    role: &'static str,
    code: String,
    department: String,
    badge: Badge,
}

/// GET /members.
pub(super) async fn list_members(
    MemberReader(acting): MemberReader,
    Query(query): Query<ListForm>,
) -> Result<Response, ApiError> {
    let listed = acting.read_lists(|view| find(view, &query)).await?;
    let states = [("", "All"), ("active", "Active"), ("inactive", "Deactivated")];
    let content = MemberListContent {
        company: &acting.company.name,
        may_manage: acting.may(Right::ManageMembers),
        q: query.of("q"),
        states: choices(states, query.of("state")),
        is_filtered: query.is_filtered(),
        pager: Pager::new(
            query.part(),
            listed.rows.len(),
            listed.count,
            "/members",
            &query.pairs(),
        ),
        rows: listed.rows,
    };
    Ok(frame::page("Members", content))
}

fn find(view: &View<'_>, query: &ListForm) -> Result<ListPage<MemberLine>, StoreError> {
    let accepts = |member: &Member| accepts(query, member);
    let listed = view.snapshot.list_members(view.company.slot, &query.part().page(), accepts)?;
    listed.load(|member| row(view, &member))
}

fn row(view: &View<'_>, member: &Member) -> Result<MemberLine, StoreError> {
    let [_, department, _, _] = view.dimension_references(&member.dimensions)?;
    Ok(MemberLine {
        id: member.id.0.to_string(),
        name: person(&member.first_name, &member.last_name, &member.email),
        email: member.email.clone(),
        role: role_words(member.role),
        code: member.code.clone().unwrap_or_default(),
        department: department.map_or_else(String::new, |known| known.name),
        badge: member_badge(member.state),
    })
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::directory::member::MemberRole;
    use cardswitch_engine::domain::ids::{CompanySlot, MemberId, MemberSlot, Timestamp};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn members_are_found_by_any_part_of_what_is_known_of_them() {
        let member = Member {
            slot: MemberSlot(0),
            id: MemberId(Uuid::nil()),
            company: CompanySlot(0),
            first_name: "Ada".to_owned(),
            last_name: "Łukasz".to_owned(),
            email: "ad\u{e9}@example.com".to_owned(),
            role: MemberRole::Member,
            code: Some("0042".to_owned()),
            state: MemberState::Inactive,
            dimensions: Default::default(),
            external_id: None,
            created_at: Timestamp(0),
        };
        let rows = [
            ("", "", true),
            ("ADA", "", true),
            ("łuk ada", "", true),
            (" @example ", "", true),
            ("ADE\u{301}@example.com", "", true),
            ("0042", "", true),
            ("004", "", false),
            ("ada eve", "", false),
            ("", "active", false),
            ("", "inactive", true),
            ("", "<b>", true),
        ];
        for (q, state, expected) in rows {
            let query = [("q", q), ("state", state)].into_iter().collect();
            assert_eq!(accepts(&query, &member), expected, "{q} {state}");
        }
    }
}
