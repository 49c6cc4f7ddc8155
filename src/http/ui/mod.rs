//! `/ui` and `/docs`: the pages, the log-in of browsers, and the data routes of the former pages.

mod files;
pub(crate) mod legacy;
pub(crate) mod pages;
pub(crate) mod session;
