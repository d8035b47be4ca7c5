//! An operation, one line: the access it needs, and its handler. Method, path and description stand
//! above the handler (`#[utoipa::path]`); the routes, the check of access and the published document
//! are made from such lines.
//!
//! INVARIANT: only operations with a line in a table are served: a path without one answers 404 and
//! a method without one 405.

use axum::Router;
use axum::routing::{MethodFilter, MethodRouter};
use utoipa::openapi::tag::TagBuilder;

use crate::required_access::RequiredAccess;

/// An operation.
#[derive(Debug)]
pub struct Operation<S> {
    /// The part of the reference it stands in, and what that is about.
    pub group: (&'static str, &'static str),
    /// The access that the caller needs.
    pub needed: RequiredAccess,
    /// `GET`, `POST`, `PUT` or `DELETE`. The right to `GET` includes `HEAD`.
    pub method: &'static str,
    /// The path as the router has it.
    pub path: String,
    /// The operation as its handler describes it, with the schemas it needs.
    pub document: fn() -> utoipa::openapi::OpenApi,
    /// Its handler, for a method.
    pub serve: fn(MethodFilter) -> MethodRouter<S>,
}

impl<S: Clone + Send + Sync + 'static> Operation<S> {
    /// The operation of a handler.
    pub fn new(
        group: (&'static str, &'static str),
        needed: RequiredAccess,
        document: fn() -> utoipa::openapi::OpenApi,
        serve: fn(MethodFilter) -> MethodRouter<S>,
    ) -> Self {
        let (path, item) = document().paths.paths.into_iter().next().unwrap_or_default();
        let methods = [("GET", &item.get), ("POST", &item.post), ("PUT", &item.put)];
        let given = methods.into_iter().find(|(_, operation)| operation.is_some());
        let method = given.map_or("DELETE", |(method, _)| method);
        Self { group, needed, method, path, document, serve }
    }

    fn filter(&self) -> MethodFilter {
        match self.method {
            "GET" => MethodFilter::GET,
            "POST" => MethodFilter::POST,
            "PUT" => MethodFilter::PUT,
            _ => MethodFilter::DELETE,
        }
    }
}

/// Operations by their lines: the access needed, and the handler. The reference has the same
/// groups.
#[macro_export]
macro_rules! operations {
    ($($group:literal: $about:literal { $($needed:ident $($handler:ident)::+,)+ })+) => {
        [$($({
            #[derive(utoipa::OpenApi)]
            #[openapi(paths($($handler)::+))]
            struct HandlerDocument;
            $crate::operation::Operation::new(
                ($group, $about),
                $crate::required_access::RequiredAccess::$needed,
                <HandlerDocument as utoipa::OpenApi>::openapi,
                |method| axum::routing::on(method, $($handler)::+),
            )
        }),+),+]
    };
}

/// The routes of operations.
pub fn routes_of<'a, S: Clone + Send + Sync + 'static>(
    operations: impl Iterator<Item = &'a Operation<S>>,
) -> Router<S> {
    operations.fold(Router::new(), |routes, operation| {
        routes.route(&operation.path, (operation.serve)(operation.filter()))
    })
}

/// The document of operations, before it is finished.
pub fn document_of<S>(
    about: utoipa::openapi::OpenApi,
    operations: &[Operation<S>],
) -> utoipa::openapi::OpenApi {
    let mut whole = about;
    for Operation { group: (name, about), document, .. } in operations {
        let tag = TagBuilder::new().name(*name).description(Some(*about)).build();
        let mut document = document();
        document.tags = Some(vec![tag]);
        for item in document.paths.paths.values_mut() {
            let of_item = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
            for operation in of_item.into_iter().flatten() {
                operation.tags = Some(vec![(*name).to_owned()]);
            }
        }
        whole.merge(document);
    }
    whole
}

/// The access that each operation needs, by path and method.
#[derive(Debug)]
pub struct AccessTable(Vec<(String, &'static str, RequiredAccess)>);

impl AccessTable {
    /// The table of operations. An operation that needs no access token has no row.
    pub fn of<S>(operations: &[Operation<S>]) -> Self {
        let guarded =
            operations.iter().filter(|operation| operation.needed != RequiredAccess::Open);
        Self(guarded.map(|line| (line.path.clone(), line.method, line.needed)).collect())
    }

    /// The access that an operation needs; none where there is no such operation.
    pub fn needed(&self, method: &str, path: &str) -> Option<RequiredAccess> {
        let method = if method == "HEAD" { "GET" } else { method };
        let mut rows = self.0.iter();
        Some(rows.find(|(known, of, _)| known == path && *of == method)?.2)
    }

    /// The methods of a path, as the header `Allow` lists them; none where there is no such path.
    pub fn allowed_methods(&self, path: &str) -> Option<String> {
        let methods = self.0.iter().filter(|(known, ..)| known == path);
        let names =
            methods.map(|(_, method, _)| if *method == "GET" { "GET,HEAD" } else { method });
        let listed = names.collect::<Vec<_>>().join(",");
        (!listed.is_empty()).then_some(listed)
    }
}
