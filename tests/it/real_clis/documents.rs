//! The request that the design documents give as their example, on the CLI that they name.

use serde_json::{Value, json};

use super::service::Service;
use crate::support::Call;
use crate::support::clis;
use crate::support::model_server::Reply;

#[test]
fn the_prime_numbers_of_the_documents_are_found_by_codex() {
    if clis::left_out("documents") {
        return;
    }
    let mut service = Service::with("codex");
    for divisor in [10, 1] {
        let create = json!({
            "skill_id": "demo-prime-number",
            "engine": "codex",
            "parameter": {"divisor": divisor},
            "model": "gpt-5.2-codex@high",
            "runtime_options": {"debug": false, "interactive_reply_timeout_sec": 1200},
        });
        let created = Call::new(service.address, "POST", "/v1/jobs").json(&create).send();
        assert_eq!(created.status, 201, "{}", created.text());
        let run = created.json()["run_id"].as_str().unwrap().to_owned();
        service.runs.push(run.clone());
        // What the prompt tells to do.
        let skill = service.run_dir(&run).join(".codex/skills/demo-prime-number");
        let numbers = service.run_dir(&run).join("uploads/input_file");
        let asked = json!({"action": "run", "params": {"input_file": numbers, "divisor": divisor}});
        let shell = format!(
            "printf '%s' '{asked}' > request.json && python3 {}/scripts/run.py < request.json",
            skill.display()
        );
        let divisible = if divisor == 1 { json!([2, 3, 4, 10]) } else { json!([10]) };
        let data = json!({"primes": [2, 3], "count": 2, "divisible": divisible});
        service.model.script(&[Reply::Shell(shell), Reply::Result(data.clone())]);
        let upload = format!("/v1/jobs/{run}/upload");
        let uploaded = Call::new(service.address, "POST", &upload).files(&[("input_file", "input.txt", b"2 3 4 10")]);
        assert_eq!(uploaded.send().status, 200);
        service.finish(&run);
        let told = service.get(&format!("/v1/jobs/{run}/result"));
        assert_eq!(told["result"]["data"], data, "{told:#}");
        assert_eq!(told["result"]["artifacts"][0]["path_rel"], "artifacts/primes.md", "{told:#}");
        let report = std::fs::read_to_string(service.run_dir(&run).join("artifacts/primes.md")).unwrap();
        assert!(report.contains("10"), "{report}");
        let prompt: Value = service.model.requests()[0].clone();
        assert!(prompt.to_string().contains(&format!("divisor: {divisor}")), "{prompt}");
    }
    service.close();
}
