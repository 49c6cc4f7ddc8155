//! `/v1/management`: what front ends need beyond the routes of jobs, skills and engines.

pub(crate) mod engines;
pub(crate) mod files;
pub(crate) mod nodes;
pub(crate) mod packages;
pub(crate) mod preview;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod skills;
