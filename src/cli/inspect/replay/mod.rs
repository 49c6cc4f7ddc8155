//! `replay`: a recorded run on the terminal or as a live feed, or a recorded turn in place of an engine.

mod command;
mod engine;
mod feed;
mod pace;
mod player;
mod recording;

pub(crate) use command::{Args, replay};
