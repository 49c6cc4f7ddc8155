//! Looking again after somebody else wrote first: at once where that can be, and neither without a pause nor for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::causes::chain;
use crate::domain::ids::{RunId, Seq};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::read_head;
use crate::store::EventStore;

/// How often one looks again at once: others write a few times to a run at rest.
const AT_ONCE: u32 = 4;
/// The pauses after that, at first and at last.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_AT_MOST: Duration = Duration::from_secs(1);

/// The looks of one who lost a race for a run.
#[derive(Debug)]
pub(crate) struct Again {
    run: RunId,
    most: Duration,
    lost: u32,
    until: Option<Instant>,
    pause: Duration,
}

impl Again {
    /// From the first race that is lost on, not for longer than this.
    pub(crate) fn within(run: RunId, most: Duration) -> Self {
        Self { run, most, lost: 0, until: None, pause: PAUSE }
    }

    /// To be called before the next look.
    pub(crate) async fn lost(&mut self, race: Error, store: &dyn EventStore) -> Result<(), Error> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.most);
        if Instant::now() >= until {
            return Err(self.given_up(race, store).await?);
        }
        self.lost += 1;
        if self.lost <= AT_ONCE {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSE_AT_MOST);
        }
        Ok(())
    }

    /// Why it is always lost.
    async fn given_up(&self, race: Error, store: &dyn EventStore) -> Result<Error, Error> {
        let before = store.head(&self.run).await?;
        let row = read_head(store, self.run).await?.state.head_seq;
        let after = store.head(&self.run).await?;
        Ok(self.judged(&race, row, [before, after]))
    }

    /// A log takes nothing if its row is not of the same moment as its head. If it is, somebody else is always faster.
    fn judged(&self, race: &Error, row: Seq, [before, after]: [Seq; 2]) -> Error {
        let run = self.run.to_string();
        if row == before || before != after {
            return Error::RunBusy { run };
        }
        let message = format!("its row does not fit its log, which takes no event: {}", chain(race));
        Error::Corrupt { run, message }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::codes::ErrorCode;
    use crate::store::{self, MemoryStore};

    fn race() -> Error {
        store::Error::Conflict { actual: Seq::START }.into()
    }

    #[tokio::test(start_paused = true)]
    async fn races_that_are_always_lost_are_given_up_after_few_looks() {
        let (began, store) = (Instant::now(), MemoryStore::default());
        let mut again = Again::within(RunId(Uuid::nil()), Duration::from_secs(30));
        let mut looks = 0;
        let given_up = loop {
            match again.lost(race(), &store).await {
                Ok(()) => looks += 1,
                Err(error) => break error,
            }
            if looks == AT_ONCE {
                assert!(began.elapsed() < PAUSE, "a race or two are looked at again at once");
            }
        };
        assert!(matches!(given_up, Error::RunNotFound { .. }), "it was deleted meanwhile: {given_up}");
        assert!((20..60).contains(&looks), "{looks} looks");
        assert!((30..32).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[test]
    fn a_log_is_damaged_only_if_its_row_is_of_another_moment_than_its_head_and_stays_so() {
        let again = Again::within(RunId(Uuid::nil()), Duration::ZERO);
        let judged = |row, before, after| again.judged(&race(), Seq(row), [Seq(before), Seq(after)]).code();
        assert_eq!(judged(7, 7, 7), ErrorCode::RunBusy, "others were faster, or it is being recovered");
        assert_eq!(judged(6, 5, 7), ErrorCode::RunBusy, "others write to it now");
        assert_eq!(judged(6, 7, 7), ErrorCode::DataCorrupt);
    }
}
