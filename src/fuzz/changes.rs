//! Changed copies of inputs: bits, bytes, words of the format, pieces of other inputs, lengths.

/// Numbers from a seed (xorshift64*): the same everywhere.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Below two to any power up to this: short ones as often as long ones.
    fn length(&mut self, power: usize) -> usize {
        let end = 1 << self.below(power);
        self.below(end)
    }
}

/// No input grows longer.
const LENGTH_MAX: usize = 64 * 1024;
const BYTES: &[u8] = &[0, 1, 9, 10, 13, 32, 34, 39, 44, 45, 47, 58, 91, 92, 93, 123, 125, 127, 128, 192, 237, 255];

/// One input made of others.
pub(super) fn changed(random: &mut Random, corpus: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..1 + random.below(6) {
        let at = random.below(input.len() + 1);
        let piece = at..(at + 1 + random.length(8)).min(input.len());
        match random.below(10) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = BYTES[random.below(BYTES.len())],
            2 => drop(input.splice(at..at, [random.next() as u8])),
            3 | 4 if !words.is_empty() => {
                let word = words[random.below(words.len())].bytes();
                let end = if random.below(2) == 0 { at } else { piece.end.max(at) };
                input.splice(at..end, word);
            }
            5 if at < input.len() => drop(input.drain(piece)),
            6 => {
                // A piece of another input, or of the same.
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.length(12)).min(other.len());
                let taken = other[from..to].to_vec();
                input.splice(at..at, taken);
            }
            7 if !piece.is_empty() => {
                let repeated = input[piece].repeat(1 + random.length(10));
                input.splice(at..at, repeated.into_iter().take(LENGTH_MAX / 4));
            }
            8 => input.truncate(at),
            9 if at + 4 <= input.len() => {
                // A number at the edge of its type.
                let edge = [0, 1, u32::MAX, u32::MAX - 1, 1 << 31, 0xffff][random.below(6)];
                input[at..at + 4].copy_from_slice(&edge.to_le_bytes());
            }
            _ => {}
        }
        input.truncate(LENGTH_MAX);
    }
    input
}
