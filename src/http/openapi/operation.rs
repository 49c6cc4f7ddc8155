//! One route in the document: its parameters, body and answers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::domain::codes::ErrorCode;
use crate::http::openapi::parameters;
use crate::http::openapi::refusals;
use crate::http::openapi::shape::{Content, Takes, reference};
use crate::http::server::route_table::Route;

/// An answer that is a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answered {
    status: u16,
    means: &'static str,
    content: Content,
    /// Headers that it may have.
    headers: &'static [&'static str],
}

/// What a route does, takes, answers and refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    id: String,
    tag: &'static str,
    summary: &'static str,
    takes: Takes,
    headers: &'static [&'static str],
    answers: Vec<Answered>,
    /// The codes of its refusals besides those that every route like it has.
    codes: Vec<ErrorCode>,
    /// Whether its own refusals are 503, whatever their codes.
    only_unavailable: bool,
    /// The schema of its refusals.
    refused_as: &'static str,
}

pub(super) fn operation(tag: &'static str, id: &str, summary: &'static str) -> Operation {
    let (takes, headers, answers, codes) = (Takes::Nothing, &[] as &[_], Vec::new(), Vec::new());
    Operation {
        id: id.to_owned(),
        tag,
        summary,
        takes,
        headers,
        answers,
        codes,
        only_unavailable: false,
        refused_as: refusals::USUAL,
    }
}

impl Operation {
    /// It answers 200 with JSON of this schema.
    pub(super) fn json(self, schema: &'static str) -> Self {
        self.answers(200, "Done.", Content::Json(schema))
    }

    pub(super) fn answers(mut self, status: u16, means: &'static str, content: Content) -> Self {
        self.answers.push(Answered { status, means, content, headers: &[] });
        self
    }

    /// Its last answer may have these headers.
    pub(super) fn with_headers(mut self, headers: &'static [&'static str]) -> Self {
        if let Some(last) = self.answers.last_mut() {
            last.headers = headers;
        }
        self
    }

    /// A file, or the part of it that is asked for.
    pub(super) fn file(mut self, mime: &'static str) -> Self {
        const HEADERS: &[&str] = &["ETag", "Content-Disposition", "Accept-Ranges"];
        const PART: &[&str] = &["ETag", "Content-Disposition", "Accept-Ranges", "Content-Range"];
        self.headers = &["Range", "If-Range", "If-None-Match"];
        self.answers(200, "The file.", Content::File(mime))
            .with_headers(HEADERS)
            .answers(206, "The part that Range asks for.", Content::File(mime))
            .with_headers(PART)
            .answers(304, "The client has it already.", Content::Nothing)
            .with_headers(&["ETag"])
            .refuses(&[ErrorCode::RangeNotSatisfiable])
    }

    /// Its last answer is a page where a browser asks.
    pub(super) fn pages_too(mut self) -> Self {
        if let Some(Answered { content, .. }) = self.answers.last_mut()
            && let Content::Json(schema) = *content
        {
            *content = Content::JsonOrPage(schema);
        }
        self
    }

    pub(super) fn takes(mut self, takes: Takes) -> Self {
        self.takes = takes;
        self
    }

    /// Request headers that it reads.
    pub(super) fn reads(mut self, headers: &'static [&'static str]) -> Self {
        self.headers = headers;
        self
    }

    pub(super) fn refuses(mut self, codes: &[ErrorCode]) -> Self {
        self.codes.extend(codes);
        self
    }

    /// Whatever is wrong, the answer is 503.
    pub(super) fn only_unavailable(mut self) -> Self {
        self.only_unavailable = true;
        self
    }

    /// Its refusals have this schema, which includes the usual one.
    pub(super) fn refused_as(mut self, schema: &'static str) -> Self {
        self.refused_as = schema;
        self
    }

    /// The operation object. What several operations share is added to the components.
    pub(super) fn document(&self, route: &Route, components: &mut Value) -> Value {
        let mut document = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "parameters": parameters::of(route, self.headers),
            "responses": self.responses(route, components),
            "x-needs": route.needs,
        });
        if let Some(body) = self.body() {
            document["requestBody"] = body;
        }
        if route.needs != "open" {
            // Without a token, the user who runs the service needs no credentials.
            document["security"] = json!([{"bearer": []}, {"basic": []}, {"session": []}, {}]);
        }
        document
    }

    fn body(&self) -> Option<Value> {
        let (media, schema, required) = match self.takes {
            Takes::Nothing => return None,
            Takes::Json(schema) => ("application/json", schema, true),
            Takes::JsonOrNothing(schema) => ("application/json", schema, false),
            Takes::Form(schema) => ("multipart/form-data", schema, true),
        };
        Some(json!({"required": required, "content": {media: {"schema": reference(schema)}}}))
    }

    fn responses(&self, route: &Route, components: &mut Value) -> Value {
        let mut responses = Map::new();
        for answer in &self.answers {
            responses.insert(answer.status.to_string(), answer.document());
        }
        for (status, codes) in self.refusals(route) {
            responses.insert(status.to_string(), refusals::response(status, &codes, self.refused_as, components));
        }
        responses.sort_keys();
        Value::Object(responses)
    }

    /// The codes of its refusals by status.
    fn refusals(&self, route: &Route) -> BTreeMap<u16, Vec<ErrorCode>> {
        let mut codes = refusals::of_every(route, self.takes);
        codes.extend(&self.codes);
        codes.sort_by_key(|code| code.as_str());
        codes.dedup();
        let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
        for code in codes {
            let of_code = code.info().http.unwrap_or(500);
            let status = if self.only_unavailable && self.codes.contains(&code) { 503 } else { of_code };
            by_status.entry(status).or_default().push(code);
        }
        by_status
    }
}

impl Answered {
    fn document(&self) -> Value {
        let mut document = json!({"description": self.means});
        let content = match self.content {
            Content::Nothing => json!({}),
            Content::Json(schema) => json!({"application/json": {"schema": reference(schema)}}),
            Content::JsonOrLines(schema) => json!({
                "application/json": {"schema": reference(schema)},
                "application/x-ndjson": {"schema": {"type": "string", "description": "One event per line, as stored."}},
            }),
            Content::JsonOrPage(schema) => json!({
                "application/json": {"schema": reference(schema)},
                "text/html": {"schema": {"type": "string"}},
            }),
            Content::Events => json!({"text/event-stream": {"schema": reference("StreamEvent")}}),
            Content::File(mime) => json!({mime: {"schema": {"type": "string", "format": "binary"}}}),
            Content::Page => json!({"text/html": {"schema": {"type": "string"}}}),
        };
        if content != json!({}) {
            document["content"] = content;
        }
        let headers = self.headers.iter().chain(&["X-Request-Id"]);
        let named = headers.map(|name| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")})));
        document["headers"] = Value::Object(named.collect());
        document
    }
}
