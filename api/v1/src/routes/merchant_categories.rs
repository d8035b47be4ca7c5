//! Merchant categories: the meaning of the numbers in an allowance's scope. Extension.

use axum::extract::State;
use cardswitch_engine::domain::merchant_category;
use cardswitch_engine::store::query::{ListPage, Order};
use serde::Serialize;
use utoipa::ToSchema;

use cardswitch_edge::input::{Answer, ListQuery};
use cardswitch_edge::json::Json;
use cardswitch_identity::auth::Caller;
use cardswitch_identity::state::AppState;
use cardswitch_wire::page::{
    Listing, PageParameters, describe_ordering, envelope, page_of, parse_page,
};
use cardswitch_wire::queries;

/// A value of a scope as responses show it.
#[derive(Debug, Serialize, ToSchema)]
pub struct MerchantCategoryBody {
    id: u16,
    name: &'static str,
    /// Category codes of the number: first and last of each range.
    ranges: Vec<[u16; 2]>,
}

/// Every value of a scope by its number: groups first, then codes.
fn merchant_categories() -> Vec<MerchantCategoryBody> {
    let groups = merchant_category::groups().iter().map(|group| MerchantCategoryBody {
        id: group.id,
        name: group.name,
        ranges: group.ranges.iter().map(|(first, last)| [*first, *last]).collect(),
    });
    let codes = merchant_category::categories().iter().map(|category| MerchantCategoryBody {
        id: category.mcc,
        name: category.name,
        ranges: vec![[category.mcc; 2]],
    });
    groups.chain(codes).collect()
}

queries! {
    /// How a list of merchant categories is ordered.
    MerchantCategoryOrdering |query| {
        describe_ordering(query, "By what the list is ordered.", "id|created_at", "id");
    };
}

/// List the numbers of an allowance's scope with their names: groups first, then codes.
#[utoipa::path(
    get, path = "/v1/merchant-categories", params(PageParameters, MerchantCategoryOrdering),
    responses((status = 200, body = Listing<MerchantCategoryBody>)),
)]
pub async fn list_merchant_categories(
    State(state): State<AppState>,
    _: Caller,
    ListQuery { mut query, address }: ListQuery,
) -> Answer<Json<Listing<MerchantCategoryBody>>> {
    let mut page = parse_page(&mut query, &["created_at", "id"]);
    if query.text("ordering").is_none() {
        page.order = Order::OldestFirst;
    }
    query.finish()?;
    let ListPage { count, rows } = page_of(merchant_categories(), &page);
    Ok(Json(envelope(ListPage { count, rows }, &page, &address, state.urls())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_come_before_codes() {
        let all = serde_json::to_value(merchant_categories()).unwrap();
        let all = all.as_array().unwrap();
        let group = json!({"id": 3, "name": "Lodging", "ranges": [[3501, 3999], [7011, 7012]]});
        assert_eq!(all[2]["id"], group["id"]);
        assert_eq!(all[2]["ranges"][0], group["ranges"][0]);
        let code = all.iter().find(|category| category["id"] == 5812).unwrap();
        let name = "Eating places and restaurants";
        assert_eq!(*code, json!({"id": 5812, "name": name, "ranges": [[5812, 5812]]}));
    }
}
