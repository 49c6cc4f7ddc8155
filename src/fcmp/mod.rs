//! FCMP/1.0: the envelope, its encoding, and windows over a run's log.
