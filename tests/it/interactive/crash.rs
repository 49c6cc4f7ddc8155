//! The service is killed with -9 between question and end: the question stays answerable, its answer is used once.

use std::time::Duration;

use serde_json::{Value, json};

use super::of_type;
use super::pose::{Pose, done, says};
use super::service::Service;
use crate::support::random::Random;

const ROUNDS: u64 = 24;

#[test]
fn kill_9_at_any_moment_between_question_and_end_uses_the_answer_once() {
    let pose = Pose::new();
    pose.plays(&[says("Name?"), done()]);
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::seeded();
    let mut ends = std::collections::BTreeMap::new();
    for round in 0..ROUNDS {
        let service = Service::start(folder.path(), &pose);
        let run = service.create(json!({}));
        let key = format!("round {round}");
        let body = json!({"interaction_id": 1, "response": key, "idempotency_key": key});
        let path = format!("/v1/jobs/{run}/interaction/reply");
        if round % 3 == 0 {
            // While the engine asks, or just after.
            std::thread::sleep(Duration::from_millis(random.below(120)));
            service.kill();
        } else {
            service.question(&run, 1);
            let address = service.address;
            let sender = {
                let (path, body) = (path.clone(), body.clone());
                // The answer may never come: the service dies meanwhile.
                std::thread::spawn(move || {
                    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
                    let sent = agent
                        .post(format!("http://{address}{path}"))
                        .header("content-type", "application/json")
                        .send(body.to_string());
                    sent.is_ok_and(|answer| answer.status() == 200)
                })
            };
            std::thread::sleep(Duration::from_millis(random.below(60)));
            service.kill();
            sender.join().unwrap();
        }
        let service = Service::start(folder.path(), &pose);
        let job = service.get(&format!("/v1/jobs/{run}"));
        if job["status"] == "waiting_user" {
            assert_eq!(job["recovery_state"], "recovered_waiting");
        }
        // A client that did not hear back asks again under its key, and is heard at most once.
        let again = service.post(&path, &body);
        let end = loop {
            let job = service.get(&format!("/v1/jobs/{run}"));
            match job["status"].as_str().unwrap() {
                "queued" | "running" => drop(service_events(&service, &run)),
                status => break format!("{status} {}", job["error"]["code"].as_str().unwrap_or_default()),
            }
        };
        let events = service.history(&run);
        let replies = of_type(&events, "interaction.reply.accepted");
        assert!(replies.len() <= 1, "{replies:?}");
        assert_eq!(again.status == 200, replies.len() == 1, "{}", again.text());
        assert!(of_type(&events, "turn.started").len() <= 2);
        let interrupted = "failed ORCHESTRATOR_RESTART_INTERRUPTED";
        assert!(end == "succeeded " || end == interrupted, "{end}");
        if replies.len() == 1 {
            // Interrupted in the middle of its second turn, or else ended well: never lost in the queue.
            assert_eq!(of_type(&events, "turn.started").len(), 2, "{end}");
        }
        if let Some(bound) = of_type(&events, "session.bound").first() {
            let told = pose.told(bound["handle"].as_str().unwrap());
            let heard = told.iter().filter(|text| text.trim() == key).count();
            let expected = if end == "succeeded " { 1..=1 } else { 0..=1 };
            assert!(expected.contains(&heard), "{end}: the engine was told {heard} times");
        }
        service.audit(&run);
        *ends.entry((round % 3 == 0, end)).or_insert(0) += 1;
    }
    eprintln!("{ends:?}");
}

/// The rest of a run's events, to its end.
fn service_events(service: &Service, run: &str) -> Vec<Value> {
    crate::support::Sse::open(service.address, &format!("/v1/jobs/{run}/events"), &[]).until_end()
}
