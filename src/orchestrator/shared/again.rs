//! Looking again after somebody else wrote first: at once where that can be, and neither without a pause nor for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::causes::chain;
use crate::domain::ids::RunId;
use crate::orchestrator::error::Error;

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

    /// To be called before the next look. Whoever loses again and again has met a log that takes nothing: its row and its head
    /// are not of the same moment.
    pub(crate) async fn lost(&mut self, race: Error) -> Result<(), Error> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.most);
        if Instant::now() >= until {
            let message = format!("its row does not fit its log, which takes no event: {}", chain(&race));
            return Err(Error::Corrupt { run: self.run.to_string(), message });
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
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::ids::Seq;
    use crate::store;

    #[tokio::test(start_paused = true)]
    async fn races_that_are_always_lost_are_given_up_after_few_looks() {
        let began = Instant::now();
        let mut again = Again::within(RunId(Uuid::nil()), Duration::from_secs(30));
        let mut looks = 0;
        let given_up = loop {
            let race = store::Error::Conflict { actual: Seq::START };
            match again.lost(race.into()).await {
                Ok(()) => looks += 1,
                Err(error) => break error,
            }
            if looks == AT_ONCE {
                assert!(began.elapsed() < PAUSE, "a race or two are looked at again at once");
            }
        };
        assert!(matches!(given_up, Error::Corrupt { .. }), "{given_up}");
        assert!((20..60).contains(&looks), "{looks} looks");
        assert!((30..32).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}
