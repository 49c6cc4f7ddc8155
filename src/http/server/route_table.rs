//! The table of routes: for each method and path what it needs, which query parameters it reads, and who answers it.

use std::collections::HashMap;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, post};

use crate::http::server::grant::Access;
use crate::http::state::app::App;
use crate::http::state::turns::Pace;

/// The query parameters that a route reads; any other is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameters {
    /// Whatever is sent.
    Any,
    Only(&'static [&'static str]),
}

/// One route. `GET` answers `HEAD`, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) needs: Access,
    pub(crate) parameters: Parameters,
    pub(crate) pace: Pace,
}

/// A route of the API, as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: String,
    /// With its variable parts in braces.
    pub path: String,
    /// `open`, `read`, `run` or `admin`.
    pub needs: &'static str,
    /// The query parameters it reads; none if it takes any.
    pub parameters: Option<&'static [&'static str]>,
}

impl From<&Row> for Route {
    fn from(row: &Row) -> Self {
        Self {
            method: row.method.to_string(),
            path: row.path.clone(),
            needs: row.needs.as_str(),
            parameters: match row.parameters {
                Parameters::Any => None,
                Parameters::Only(names) => Some(names),
            },
        }
    }
}

/// Routes in the making. Each is added with its row, so there is no route without one.
pub(crate) struct RouteTable {
    router: Router<App>,
    rows: Vec<Row>,
    upload_limit: DefaultBodyLimit,
}

impl RouteTable {
    pub(crate) fn new(upload_limit: DefaultBodyLimit) -> Self {
        Self { router: Router::new(), rows: Vec::new(), upload_limit }
    }

    pub(crate) fn get<H, T>(self, path: &str, needs: Access, query: &'static [&'static str], handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.add(Method::GET, path, needs, Parameters::Only(query), Pace::Usual, get(handler))
    }

    /// A GET whose answer may take seconds to begin.
    pub(crate) fn slow_get<H, T>(
        self,
        path: &str,
        needs: Access,
        query: &'static [&'static str],
        pace: Pace,
        handler: H,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.add(Method::GET, path, needs, Parameters::Only(query), pace, get(handler))
    }

    pub(crate) fn post<H, T>(self, path: &str, needs: Access, query: &'static [&'static str], handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.add(Method::POST, path, needs, Parameters::Only(query), Pace::Own, post(handler))
    }

    pub(crate) fn delete<H, T>(self, path: &str, needs: Access, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.add(Method::DELETE, path, needs, Parameters::Only(&[]), Pace::Own, delete(handler))
    }

    /// A POST whose body is an upload.
    pub(crate) fn upload<H, T>(self, path: &str, needs: Access, query: &'static [&'static str], handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let limited = post(handler).layer(self.upload_limit);
        self.add(Method::POST, path, needs, Parameters::Only(query), Pace::Own, limited)
    }

    /// A check of the service's health, which anybody may ask for and with any query: probes add what they like.
    pub(crate) fn health<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.add(Method::GET, path, Access::Open, Parameters::Any, Pace::Own, get(handler))
    }

    /// A page or a file of the user interface. It holds no data, so anybody may have it, with any query: the page reads it.
    pub(crate) fn page<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        self.add(Method::GET, path, Access::Open, Parameters::Any, Pace::Own, get(handler))
    }

    fn add(
        mut self,
        method: Method,
        path: &str,
        needs: Access,
        parameters: Parameters,
        pace: Pace,
        to: MethodRouter<App>,
    ) -> Self {
        self.router = self.router.route(path, to);
        self.rows.push(Row { method, path: path.to_owned(), needs, parameters, pace });
        self
    }

    pub(crate) fn finish(self) -> (Router<App>, Rows) {
        (self.router, Rows::new(self.rows))
    }
}

/// The rows of the finished table, found by what the router matched.
#[derive(Debug)]
pub(crate) struct Rows {
    all: Vec<Row>,
    /// The places of the rows of a path.
    by_path: HashMap<String, Vec<usize>>,
}

impl Rows {
    fn new(all: Vec<Row>) -> Self {
        let mut by_path: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, row) in all.iter().enumerate() {
            by_path.entry(row.path.clone()).or_default().push(at);
        }
        Self { all, by_path }
    }

    pub(crate) fn all(&self) -> &[Row] {
        &self.all
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// The row of a route; none for a method that the path does not have.
    pub(crate) fn of(&self, method: &Method, path: &str) -> Option<&Row> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let rows = self.by_path.get(path)?.iter().filter_map(|at| self.all.get(*at));
        rows.into_iter().find(|row| row.method == *method)
    }
}
