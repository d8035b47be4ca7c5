//! Requests over HTTP by method, route and status.
//!
//! A route is the template that the router matched, never the path as it was asked: what clients
//! invent must not become figures.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use cardswitch_engine::meters::{Histogram, HistogramSnapshot};
use parking_lot::{Mutex, RwLock};

/// The name under which requests without a route are counted.
pub const NO_ROUTE: &str = "none";

/// How many routes are told apart; there are far fewer.
const ROUTES_MAX: usize = 1_000;

/// The methods that are told apart; all others are one.
const METHODS: [(&str, Method); 5] = [
    ("GET", Method::GET),
    ("POST", Method::POST),
    ("PUT", Method::PUT),
    ("PATCH", Method::PATCH),
    ("DELETE", Method::DELETE),
];
const OTHER_METHOD: &str = "other";

type Routes = RwLock<HashMap<String, Arc<RouteMeter>>>;

/// Counts requests.
#[derive(Debug, Default)]
pub struct ApiMeter([Routes; METHODS.len() + 1]);

/// The requests of one method and route.
#[derive(Debug, Default)]
struct RouteMeter {
    took: Histogram,
    statuses: Mutex<BTreeMap<u16, u64>>,
}

/// The figures of one method and route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSnapshot {
    /// The method.
    pub method: &'static str,
    /// The template.
    pub route: String,
    /// How long answers took.
    pub took: HistogramSnapshot,
    /// How many had each status.
    pub statuses: BTreeMap<u16, u64>,
}

impl ApiMeter {
    /// Counts a request that was answered.
    pub fn record(&self, method: &Method, route: &str, status: u16, took: Duration) {
        let meter = self.meter(method, route);
        meter.took.record(took);
        *meter.statuses.lock().entry(status).or_default() += 1;
    }

    /// All figures, in an order that stays.
    pub fn now(&self) -> Vec<RouteSnapshot> {
        let names = METHODS.iter().map(|(name, _)| *name).chain([OTHER_METHOD]);
        let mut figures = Vec::new();
        for (method, routes) in names.zip(&self.0) {
            let routes = routes.read();
            figures.extend(routes.iter().map(|(route, meter)| RouteSnapshot {
                method,
                route: route.clone(),
                took: meter.took.now(),
                statuses: meter.statuses.lock().clone(),
            }));
        }
        figures.sort_by(|one, other| (&one.route, one.method).cmp(&(&other.route, other.method)));
        figures
    }

    fn meter(&self, method: &Method, route: &str) -> Arc<RouteMeter> {
        let place = METHODS.iter().position(|(_, known)| known == method);
        let routes = &self.0[place.unwrap_or(METHODS.len())];
        if let Some(meter) = routes.read().get(route) {
            return Arc::clone(meter);
        }
        let mut routes = routes.write();
        let route = if routes.len() < ROUTES_MAX { route } else { NO_ROUTE };
        Arc::clone(routes.entry(route.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_method_route_and_status() {
        let meter = ApiMeter::default();
        let took = Duration::from_millis(1);
        meter.record(&Method::GET, "/v1/cards", 200, took);
        meter.record(&Method::GET, "/v1/cards", 200, took);
        meter.record(&Method::GET, "/v1/cards", 401, took);
        meter.record(&Method::POST, "/v1/cards", 201, took);
        meter.record(&Method::from_bytes(b"BREW").unwrap(), NO_ROUTE, 405, took);
        let now = meter.now();
        let told: Vec<_> = now
            .iter()
            .map(|route| (route.method, route.route.as_str(), route.took.count()))
            .collect();
        let expected = [("GET", "/v1/cards", 3), ("POST", "/v1/cards", 1), ("other", NO_ROUTE, 1)];
        assert_eq!(told, expected);
        assert_eq!(now[0].statuses, BTreeMap::from([(200, 2), (401, 1)]));
    }

    #[test]
    fn there_are_only_so_many_routes() {
        let meter = ApiMeter::default();
        for number in 0..ROUTES_MAX + 10 {
            meter.record(&Method::GET, &format!("/{number}"), 200, Duration::ZERO);
        }
        let now = meter.now();
        assert_eq!(now.len(), ROUTES_MAX + 1);
        let others = now.iter().find(|route| route.route == NO_ROUTE);
        assert_eq!(others.map(|route| route.took.count()), Some(10));
    }
}
