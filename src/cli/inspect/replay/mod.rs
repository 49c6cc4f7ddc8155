//! `replay`: a recorded run played again, to the terminal or as a live feed; or a recorded turn, posing as its engine.

mod command;
mod engine;
mod feed;
mod pace;
mod player;
mod recording;

pub(crate) use command::{Args, replay};
