//! Calls of tools that have no result so far, for engines that tell a call and its result apart.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

/// Most bytes of ids, tools and inputs that are kept, as JSON; the oldest are forgotten first, the last call stays.
const KEPT_MAX: usize = 1024 * 1024;
/// How many bytes a call counts at least.
const CALL_MIN: usize = 256;

/// A call: its tool and the input.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) input: Value,
}

/// The calls without a result, by their id.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    by_id: BTreeMap<String, (Call, usize)>,
    /// The ids in the order of the calls, those with a result among them.
    order: VecDeque<String>,
    bytes: usize,
}

impl Calls {
    pub(crate) fn begin(&mut self, id: &str, call: Call) {
        self.end(id);
        let bytes = CALL_MIN + 2 * id.len() + call.tool.len() + call.input.to_string().len();
        self.by_id.insert(id.to_owned(), (call, bytes));
        self.order.push_back(id.to_owned());
        self.bytes += bytes;
        while self.by_id.len() > 1 && self.bytes > KEPT_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.forget(&oldest);
        }
    }

    /// The call that this is the result of; an empty one when it is not known.
    pub(crate) fn end(&mut self, id: &str) -> Call {
        let call = self.forget(id);
        if call.is_some() {
            self.order.retain(|known| known != id);
        }
        call.unwrap_or_default()
    }

    fn forget(&mut self, id: &str) -> Option<Call> {
        let (call, bytes) = self.by_id.remove(id)?;
        self.bytes -= bytes;
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(input: Value) -> Call {
        Call { tool: "Read".into(), input }
    }

    #[test]
    fn a_result_finds_its_call_once_whatever_came_between() {
        let mut calls = Calls::default();
        calls.begin("a", call(json!({ "path": "1" })));
        calls.begin("b", call(json!({ "path": "2" })));
        calls.begin("a", call(json!({ "path": "3" })));
        assert_eq!(calls.end("a"), call(json!({ "path": "3" })));
        assert_eq!(calls.end("b"), call(json!({ "path": "2" })));
        assert_eq!(calls.end("a"), Call::default());
        assert_eq!((calls.by_id.len(), calls.order.len(), calls.bytes), (0, 0, 0));
    }

    #[test]
    fn calls_that_never_have_a_result_take_bounded_memory_and_the_newest_stay() {
        let mut calls = Calls::default();
        for number in 0..20_000 {
            calls.begin(&number.to_string(), call(json!("x".repeat(1000))));
        }
        assert!(calls.bytes <= KEPT_MAX, "{} bytes", calls.bytes);
        assert_eq!(calls.by_id.len(), calls.order.len());
        assert_eq!(calls.end("0"), Call::default());
        assert_eq!(calls.end("19999"), call(json!("x".repeat(1000))));
        let long = call(json!("x".repeat(2 * KEPT_MAX)));
        calls.begin("long", long.clone());
        assert_eq!((calls.by_id.len(), calls.order.len()), (1, 1));
        assert_eq!(calls.end("long"), long);
    }
}
