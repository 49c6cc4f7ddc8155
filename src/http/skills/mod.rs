//! `/v1/skills` and `/v1/skill-packages`: installed skills and the installation of new ones.

pub(crate) mod installed;
pub(crate) mod lifecycle;
pub(crate) mod packages;
