//! The requisitions that one may see, the newest first. GET /requisitions.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::requisition::{Requisition, RequisitionStatus};
use cardswitch_engine::domain::ids::MemberId;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{ListPage, RequisitionFilter};
use cardswitch_v1::routes::requisitions::check_network;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::fields::parse_id;

use super::form::deadline;
use super::sees_all;
use crate::frame;
use crate::pager::{ListForm, Pager, filtered};
use crate::rights::ActingMember;
use crate::words::{Badge, Moment, moment, money, person, requisition_badge};

const PATH: &str = "/requisitions";

#[derive(Template)]
#[template(path = "requisitions/list.html")]
struct RequisitionListContent<'a> {
    company: &'a str,
    sees_all: bool,
    /// The reason why no requisition can be made here; blank where one can.
    barrier: String,
    /// The member, where only their requisitions are shown.
    of: Option<String>,
    tabs: Vec<StatusTab>,
    is_filtered: bool,
    rows: Vec<RequisitionLine>,
    pager: Pager,
}

/// A way to those in one status.
struct StatusTab {
    label: &'static str,
    path: String,
    is_here: bool,
}

struct RequisitionLine {
    id: String,
    description: String,
    amount: String,
    asked_by: String,
    asked_at: Moment,
    buy_by: Option<Moment>,
    badge: Badge,
}

/// GET /requisitions.
pub(super) async fn list_requisitions(
    acting: ActingMember,
    Query(query): Query<ListForm>,
) -> Result<Response, ApiError> {
    let (of, listed) = acting.read_lists(|view| find(view, &acting, &query)).await?;
    let content = RequisitionListContent {
        company: &acting.company.name,
        sees_all: sees_all(&acting),
        barrier: check_network((&acting).into()).err().map_or_else(String::new, barrier),
        of,
        tabs: tabs(&query),
        is_filtered: query.is_filtered(),
        pager: Pager::new(query.part(), listed.rows.len(), listed.count, PATH, &query.pairs()),
        rows: listed.rows,
    };
    Ok(frame::page("Requisitions", content))
}

/// The message where the company's requisitions serve other cards.
pub(super) fn barrier(error: ApiError) -> String {
    format!("Requisitions aren’t available here: {}.", error.message().replace('`', ""))
}

/// The member whose requisitions are listed, if asked for by member, and the part of the list.
type RequisitionPage = (Option<String>, ListPage<RequisitionLine>);

fn find(
    view: &View<'_>,
    acting: &ActingMember,
    query: &ListForm,
) -> Result<RequisitionPage, StoreError> {
    let none = ListPage::EMPTY;
    let mut filter = RequisitionFilter {
        statuses: RequisitionStatus::parse(query.of("status")).into_iter().collect(),
        ..RequisitionFilter::default()
    };
    let mut of = None;
    if !query.of("member").is_empty() && sees_all(acting) {
        let member = parse_id(query.of("member")).map(MemberId);
        let member = member.map_or(Ok(None), |id| view.find_member(id))?;
        let Some(member) = member else { return Ok((None, none)) };
        filter.member = Some(member.slot);
        of = Some(person(&member.first_name, &member.last_name, &member.email));
    }
    if !sees_all(acting) {
        filter.member = Some(acting.member.slot);
    }
    let listed =
        view.snapshot.list_requisitions(view.company.slot, &filter, &query.part().page())?;
    Ok((of, listed.load(|requisition| row(view, &requisition))?))
}

fn row(view: &View<'_>, requisition: &Requisition) -> Result<RequisitionLine, StoreError> {
    let zone = view.company.zone;
    let member = view.member_reference(Some(requisition.member))?;
    let name = |known: cardswitch_wire::reference::MemberReference| {
        person(&known.first_name, &known.last_name, &known.email)
    };
    Ok(RequisitionLine {
        id: requisition.id.0.to_string(),
        description: requisition.description.clone(),
        amount: money(requisition.amount, view.company.currency),
        asked_by: member.map_or_else(String::new, name),
        asked_at: moment(requisition.created_at, zone),
        buy_by: requisition.end_time.map(|at| deadline(at, zone)),
        badge: requisition_badge(requisition.status),
    })
}

fn tabs(query: &ListForm) -> Vec<StatusTab> {
    let here = RequisitionStatus::parse(query.of("status"));
    let tab = |status: Option<RequisitionStatus>| StatusTab {
        label: status.map_or("All", |status| requisition_badge(status).word),
        path: filtered(
            PATH,
            [
                ("status", status.map_or("", RequisitionStatus::word)),
                ("member", query.of("member")),
            ],
        ),
        is_here: here == status,
    };
    [None].into_iter().chain(RequisitionStatus::ALL.map(Some)).map(tab).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_keep_the_member_and_tell_where_one_is() {
        let query = |status, member| -> ListForm {
            [("status", status), ("member", member), ("offset", "50")].into_iter().collect()
        };
        let here = |query: &ListForm| {
            tabs(query).iter().position(|tab| tab.is_here).map(|place| tabs(query)[place].label)
        };
        assert_eq!(here(&query("", "")), Some("All"));
        assert_eq!(here(&query("pending", "")), Some("Pending"));
        assert_eq!(here(&query("<b>", "")), Some("All"), "what is no status filters nothing");
        let paths: Vec<_> = tabs(&query("", "a&b")).into_iter().map(|tab| tab.path).collect();
        assert_eq!(paths[0], "/requisitions?member=a%26b");
        assert_eq!(paths[4], "/requisitions?status=canceled&member=a%26b");
        assert_eq!(tabs(&query("denied", ""))[0].path, "/requisitions");
    }
}
