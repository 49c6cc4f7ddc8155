//! The skills folder: scanning it and seeing its changes.
