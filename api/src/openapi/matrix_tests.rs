//! Every operation of the document, asked with every scope about objects of the caller's company, of
//! another company and of none: the table decides, and what is another's is as what is not there.

use cardswitch_edge::required_access::RequiredAccess;
use cardswitch_v1::operations::ACCESS;
use serde_json::json;

use super::world::{DocumentOperation, Ids, RecordedAnswer, SCOPES, Side, World};

const UNKNOWN: [&str; 3] =
    ["0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f", "00000000-0000-0000-0000-000000000000", "not-an-id"];

fn is_enough(needed: RequiredAccess, scope: &str) -> bool {
    needed.scopes().is_empty() || needed.scopes().contains(&scope)
}

/// Asks about the objects `ids`: operations that take JSON with an empty object, uploads with a small file.
async fn ask(
    world: &World,
    scope: &str,
    operation: &DocumentOperation,
    ids: &Ids,
) -> RecordedAnswer {
    if operation.value.pointer("/requestBody/content/image~1png").is_some() {
        return world.send_file(scope, &operation.at(ids)).await;
    }
    let empty = json!({});
    let body = operation.body_schema().map(|_| &empty);
    world.ask((Side::Own, scope), &operation.method, &operation.at(ids), body).await
}

/// The ids with one of them, or all, taken from elsewhere.
fn mixtures(
    operation: &DocumentOperation,
    own: &Ids,
    foreign: &Ids,
    unknown: &str,
) -> Vec<(Ids, Ids)> {
    let names = operation.ids();
    let choices = (1..1_u32 << names.len()).map(|choice| {
        let (mut of_another, mut of_none) = (own.clone(), own.clone());
        for (place, name) in names.iter().enumerate().filter(|(place, _)| choice >> place & 1 == 1)
        {
            assert!(foreign.contains_key(name), "{place}: no foreign {name}");
            of_another.insert(name.clone(), foreign[name].clone());
            of_none.insert(name.clone(), unknown.to_owned());
        }
        (of_another, of_none)
    });
    choices.collect()
}

#[tokio::test]
async fn the_table_decides_and_what_is_anothers_is_not_there() {
    let world = World::new().await;
    let foreign = world.make_objects(Side::Foreign).await;
    let untouched = world.picture(Side::Foreign).await;
    let mut asked = 0;
    for scope in SCOPES {
        let own = world.make_objects(Side::Own).await;
        for operation in world.operations() {
            let name = format!("{scope}: {} {}", operation.method, operation.path);
            let needed = ACCESS.needed(&operation.method, &operation.path).unwrap();
            let allowed = is_enough(needed, scope);
            for unknown in UNKNOWN {
                for (of_another, of_none) in mixtures(&operation, &own, &foreign, unknown) {
                    let told = ask(&world, scope, &operation, &of_another).await;
                    assert_eq!(told.status, if allowed { 404 } else { 403 }, "{name} {told:?}");
                    assert_eq!(told, ask(&world, scope, &operation, &of_none).await, "{name}");
                    asked += 1;
                }
            }
            let told = ask(&world, scope, &operation, &own).await;
            let expected: &[u16] = match (allowed, operation.method.as_str()) {
                (false, _) => &[403],
                (true, "GET") => &[200],
                (true, "DELETE") => &[200, 204, 409],
                (true, _) => &[200, 201, 400, 409, 415],
            };
            assert!(expected.contains(&told.status), "{name}: {told:?}");
            let nobody = ask(&world, "", &operation, &own).await;
            assert_eq!(nobody.status, 401, "{name}");
            assert_eq!(nobody.headers.get("www-authenticate").map(String::as_str), Some("Token"));
        }
    }
    assert!(asked > 100, "{asked} answers were compared");
    assert_eq!(world.picture(Side::Foreign).await, untouched, "nothing of another's has changed");
}

/// The filters by ids of objects. Only `actor` of audit events is not asked: nobody of the other company acts.
const FILTERS: usize = 15;

#[tokio::test]
async fn a_filter_by_what_is_anothers_finds_nothing() {
    let world = World::new().await;
    let own = world.make_objects(Side::Own).await;
    let foreign = world.make_objects(Side::Foreign).await;
    world.buy(Side::Foreign, &foreign).await;
    let (mut asked, mut unproven) = (0, Vec::new());
    for operation in world.operations() {
        let parameters = operation.value["parameters"].as_array().cloned().unwrap_or_default();
        let filters = parameters.iter().filter(|parameter| {
            parameter["in"] == "query" && parameter["schema"]["format"] == "uuid"
        });
        for filter in filters {
            let name = filter["name"].as_str().unwrap();
            let Some(id) = foreign.get(super::world::id_name(name)) else { continue };
            let list = async |side, id: &str| {
                let whose = if side == Side::Own { &own } else { &foreign };
                let path = format!("{}?{name}={id}", operation.at(whose));
                world.ask((side, "admin"), "GET", &path, None).await.json()
            };
            for id in [id.as_str(), UNKNOWN[0]] {
                let listed = list(Side::Own, id).await;
                assert_eq!(listed["count"], 0, "{} {name}: {listed}", operation.path);
                assert_eq!(listed["results"], json!([]), "{} {name}", operation.path);
            }
            let found = list(Side::Foreign, id).await;
            if found["count"] == 0 {
                unproven.push(format!("{} {name}", operation.path));
            }
            asked += 1;
        }
    }
    assert_eq!(unproven, [""; 0], "the other company has none of these");
    assert_eq!(asked, FILTERS, "filters were asked");
}

#[tokio::test]
async fn methods_without_a_row_are_405_and_told_which_there_are() {
    let world = World::new().await;
    let own = world.make_objects(Side::Own).await;
    let operations = world.operations();
    for operation in &operations {
        let of_path = operations.iter().filter(|other| other.path == operation.path);
        let methods: Vec<_> = of_path.map(|other| other.method.as_str()).collect();
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "X"]
        {
            if methods.contains(&method) {
                continue;
            }
            let path = operation.at(&own);
            let told = world.ask((Side::Own, "admin"), method, &path, None).await;
            assert_eq!(told.status, 405, "{method} {path}: {told:?}");
            assert_eq!(told.json()["detail"]["code"], "method_not_allowed");
            let mut allowed: Vec<_> = told.headers["allow"].split(',').collect();
            allowed.retain(|name| *name != "HEAD");
            allowed.sort_unstable();
            let mut expected = methods.clone();
            expected.sort_unstable();
            assert_eq!(allowed, expected, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_head_is_that_of_the_answer() {
    let world = World::new().await;
    let own = world.make_objects(Side::Own).await;
    for operation in world.operations().iter().filter(|operation| operation.method == "GET") {
        let path = operation.at(&own);
        let whole = world.ask((Side::Own, "admin"), "GET", &path, None).await;
        let head = world.ask((Side::Own, "admin"), "HEAD", &path, None).await;
        assert_eq!((head.status, head.body.as_str()), (whole.status, ""), "{path}");
        assert_eq!(head.headers.get("content-type"), whole.headers.get("content-type"), "{path}");
    }
}
