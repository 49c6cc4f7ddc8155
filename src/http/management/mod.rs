//! `/v1/management/runs`: what front ends need beyond the routes of a job.

pub(crate) mod files;
pub(crate) mod run;
