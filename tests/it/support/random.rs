//! The random part of tests that kill something: the same numbers every time, unless others are asked for.

/// Numbers by xorshift.
pub struct Random(u64);

impl Random {
    /// `CRASH_SEED` of the environment begins another sequence than the usual one.
    pub fn seeded() -> Random {
        let given = std::env::var("CRASH_SEED").ok();
        let seed = given.map_or(20_260_101, |text| text.parse().expect("CRASH_SEED is a number"));
        eprintln!("CRASH_SEED={seed}");
        Random::of(seed)
    }

    /// The sequence of this number.
    pub fn of(seed: u64) -> Random {
        // Xorshift never leaves zero.
        Random(seed | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
