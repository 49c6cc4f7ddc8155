//! What only these measurements ask of the service.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::service::Service;

impl Service {
    /// Creates a run and waits for its end.
    pub fn run(&self, client: &mut Client, skill: &str) -> Value {
        let body = json!({"skill_id": skill, "runtime_options": {"no_cache": true}});
        let job = client.json("POST", "/v1/jobs?wait=300", Some(&body));
        assert_eq!(job["status"], "succeeded", "{job}");
        job
    }

    /// Processor time of the process itself and of those it has waited for.
    pub fn cpu(&self) -> (Duration, Duration) {
        cpu(self.pid())
    }

    /// Waits until the service has hardly done anything for so long that the grace time is over, too.
    pub fn settle(&self) {
        const LOOK: Duration = Duration::from_millis(500);
        const QUIET_LOOKS: u32 = 8;
        let deadline = Instant::now() + Duration::from_secs(300);
        let used = || {
            let (own, children) = self.cpu();
            own + children
        };
        let (mut quiet, mut before) = (0, used());
        while quiet < QUIET_LOOKS {
            assert!(Instant::now() < deadline, "the service has nothing more to do");
            std::thread::sleep(LOOK);
            let now = used();
            // A third of a core: somebody asks all the time.
            quiet = if now - before < LOOK / 3 { quiet + 1 } else { 0 };
            before = now;
        }
    }

    /// Bytes that the process and those it has waited for sent towards the disk.
    pub fn written(&self) -> u64 {
        let io = fs::read_to_string(self.proc("io")).unwrap();
        let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
        line.parse().unwrap()
    }

    /// Lets `VmHWM` begin anew.
    pub fn forget_peak(&self) {
        fs::write(self.proc("clear_refs"), "5").unwrap();
    }
}

/// Processor time of a process itself and of those it has waited for.
pub fn cpu(pid: u32) -> (Duration, Duration) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // The unit is 10 ms on every Linux (USER_HZ).
    let ticks = |at: usize| Duration::from_millis(fields[at].parse::<u64>().unwrap() * 10);
    (ticks(11) + ticks(12), ticks(13) + ticks(14))
}
