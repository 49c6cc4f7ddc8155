//! The data routes of the former user interface: the same data as the management API, and a note that they end, or 410.

use serde_json::json;

use crate::support::Server;
use crate::support::skill::HELLO;

#[test]
fn old_routes_answer_as_their_successors_and_tell_their_end_or_are_gone() {
    for (mode, told, status) in [("warn", true, 200), ("allow", false, 200), ("gone", true, 410)] {
        let server = Server::with(&[("ui_legacy_api_mode", mode)]);
        server.skill("hello", HELLO, json!({}));
        let (_, run) = server.finished("hello");
        for (old, new) in [
            ("/ui/skills/table".to_owned(), "/v1/management/skills".to_owned()),
            ("/ui/engines/table".to_owned(), "/v1/management/engines".to_owned()),
            ("/ui/runs/table".to_owned(), "/v1/management/runs".to_owned()),
            (format!("/ui/runs/{run}/view?path=input.json"), format!("/v1/management/runs/{run}/file?path=input.json")),
            (format!("/ui/runs/{run}/logs/tail"), format!("/v1/jobs/{run}/logs")),
        ] {
            let answer = server.get(&old);
            let plain = new.split('?').next().unwrap();
            let link = format!("<{plain}>; rel=\"successor-version\"");
            assert_eq!(answer.header("link"), if told { link.as_str() } else { "" }, "{mode} {old}");
            if status == 410 {
                assert_eq!(answer.refusal(), (410, "LEGACY_ROUTE_GONE".into()), "{old}");
                assert_eq!(answer.json()["error"]["details"], json!({"successor": plain}), "{old}");
                continue;
            }
            assert_eq!((answer.status, answer.json()), (200, server.get(&new).json()), "{mode} {old}");
            let sunset = if told { "Tue, 30 Jun 2026 23:59:59 GMT" } else { "" };
            let deprecation = if told { "@1771200000" } else { "" };
            assert_eq!((answer.header("sunset"), answer.header("deprecation")), (sunset, deprecation), "{mode} {old}");
        }
        let page = server.call("GET", "/ui/skills/table").header("accept", "text/html,*/*").send();
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8", "the page of a skill with this name");
        for page in [format!("/ui/runs/{run}"), "/ui/runs/x/y".to_owned(), "/ui/engines".to_owned()] {
            assert_eq!(server.get(&page).header("content-type"), "text/html; charset=utf-8", "{page}");
        }
    }
    let other = Server::with(&[("ui_legacy_api_sunset", "2027-01-05"), ("token", "t0ken")]);
    assert_eq!(other.get("/ui/runs/table").refusal(), (401, "UNAUTHORIZED".into()));
    let answer = other.call("GET", "/ui/runs/table").header("authorization", "Bearer t0ken").send();
    assert_eq!(answer.header("sunset"), "Tue, 05 Jan 2027 23:59:59 GMT");
}
