//! Work that is repeated as long as the service lives, and must not end with one piece of it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tracing::error;

/// Does one piece of such work. A panic in it is told and costs this piece alone; `None` then.
pub(crate) async fn unbroken<T>(doing: &'static str, piece: impl Future<Output = T>) -> Option<T> {
    let done = AssertUnwindSafe(piece).catch_unwind().await.ok();
    if done.is_none() {
        error!(doing, "work in the background broke; it goes on with what comes next");
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_piece_that_panics_is_the_only_one_that_is_not_done() {
        let mut done = Vec::new();
        for piece in 0..3 {
            done.push(unbroken("count", async move { if piece == 1 { panic!("not this one") } else { piece } }).await);
        }
        assert_eq!(done, [Some(0), None, Some(2)]);
    }
}
