//! Traces of ended runs and sets of metrics are sent to a collector, beside all other work.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use crate::domain::causes::chain;
use crate::domain::ids::{RunId, Seq};
use crate::domain::time::Timestamp;
use crate::fcmp::read_envelope;
use crate::metrics::otlp as metrics_body;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Orchestrator;
use crate::orchestrator::log::RunLog;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::ended_runs::Told;
use crate::projection::trace::{Span, TraceBuilder, otlp as traces_body, resource};
use crate::store::EventBatch;
use crate::telemetry::Collector;

/// Most runs, and spans after which no further run is added, of one request.
const RUNS_TOGETHER: usize = 32;
const SPANS_TOGETHER: usize = 4000;

/// Sends to one collector.
struct Sender {
    collector: Arc<Collector>,
    resource: Value,
    began: Timestamp,
    /// Whether the last request failed: an outage is logged once.
    failing: bool,
}

/// Sends until the service ends.
pub(crate) async fn send_often(shared: Weak<Shared>, collector: Collector, mut told: mpsc::Receiver<Told>) {
    let Some((began, instance)) = shared.upgrade().map(|shared| (shared.clock.now(), shared.clock.new_id())) else {
        return;
    };
    let settings = collector.settings();
    let resource = resource(&settings.service_name, &instance.to_string());
    let mut pause = interval(Duration::from_secs(settings.interval_seconds));
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sender = Sender { collector: Arc::new(collector), resource, began, failing: false };
    // The first tick comes at once.
    pause.tick().await;
    loop {
        let (mut runs, mut waiting) = (Vec::new(), None);
        tokio::select! {
            _ = pause.tick() => {}
            next = told.recv() => match next {
                Some(next) => {
                    sort(next, &mut runs, &mut waiting);
                    while runs.len() < RUNS_TOGETHER && waiting.is_none() {
                        let Ok(next) = told.try_recv() else { break };
                        sort(next, &mut runs, &mut waiting);
                    }
                }
                None => return,
            },
        }
        let Some(shared) = shared.upgrade() else { return };
        let wants_metrics = runs.is_empty() || waiting.is_some();
        unbroken("send traces", sender.send_traces(&shared, runs)).await;
        if wants_metrics {
            unbroken("send metrics", sender.send_metrics(&shared)).await;
        }
        if let Some(waiting) = waiting {
            let _ = waiting.send(());
        }
    }
}

fn sort(next: Told, runs: &mut Vec<RunId>, waiting: &mut Option<oneshot::Sender<()>>) {
    match next {
        Told::Ended(run) => runs.push(run),
        Told::Flush(done) => *waiting = Some(done),
    }
}

impl Sender {
    async fn send_traces(&mut self, shared: &Arc<Shared>, runs: Vec<RunId>) {
        let (mut spans, mut traces) = (Vec::new(), 0);
        for run in runs {
            match trace(&shared.log, run).await {
                Ok(found) if found.is_empty() => {
                    debug!(run.id = %run, "the caller does not record the trace of this run")
                }
                Ok(found) => {
                    spans.extend(found);
                    traces += 1;
                }
                // Deleted meanwhile, or damaged, which others tell.
                Err(error) => debug!(run.id = %run, error = %chain(&error), "no trace of this run is sent"),
            }
            if spans.len() > SPANS_TOGETHER {
                self.send(shared, "traces", traces, traces_body(&spans, &self.resource)).await;
                (spans, traces) = (Vec::new(), 0);
            }
        }
        if !spans.is_empty() {
            self.send(shared, "traces", traces, traces_body(&spans, &self.resource)).await;
        }
    }

    async fn send_metrics(&mut self, shared: &Arc<Shared>) {
        let (orchestrator, resource, began) =
            (Orchestrator { shared: shared.clone() }, self.resource.clone(), self.began);
        let now = shared.clock.now();
        let body = move || metrics_body(&orchestrator.read_metrics(), &resource, began, now);
        if let Ok(body) = tokio::task::spawn_blocking(body).await {
            self.send(shared, "metrics", 1, body).await;
        }
    }

    async fn send(&mut self, shared: &Arc<Shared>, signal: &'static str, count: u64, body: Value) {
        let collector = self.collector.clone();
        let sent = tokio::task::spawn_blocking(move || collector.send(signal, &body)).await;
        let failed = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(panic) => Some(panic.to_string()),
        };
        shared.metrics.exported(signal, count, failed.is_none());
        let was_failing = std::mem::replace(&mut self.failing, failed.is_some());
        match failed {
            Some(error) if !was_failing => {
                warn!(
                    signal,
                    error, "traces and metrics cannot be sent; they are given up until the collector takes them"
                );
            }
            Some(error) => debug!(signal, error, "not sent"),
            None if was_failing => info!(signal, "traces and metrics are sent again"),
            None => {}
        }
    }
}

/// The spans of a run that has ended.
async fn trace(log: &RunLog, run: RunId) -> Result<Vec<Span>, Error> {
    let mut trace = TraceBuilder::new(run);
    let mut events = log.events(run, Seq::START);
    while let Some(page) = events.next_page().await? {
        for (seq, stored) in page.iter().flat_map(EventBatch::events) {
            let envelope = read_envelope(&stored)
                .map_err(|error| Error::Corrupt { run: run.to_string(), message: format!("event {seq}: {error}") })?;
            if let Some(event) = &envelope.event {
                trace.push(seq, envelope.ts, event);
            }
        }
    }
    Ok(trace.finish())
}
