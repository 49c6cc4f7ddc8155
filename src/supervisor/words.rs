//! Lists of words for the shim, each ended by a NUL byte.

use skill_runner_shim::wire::{NulByte, Words};

pub(crate) fn words(list: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Vec<u8>, NulByte> {
    let mut bytes = Vec::new();
    list.into_iter().try_for_each(|word| Words::push(&mut bytes, word.as_ref()))?;
    Ok(bytes)
}
