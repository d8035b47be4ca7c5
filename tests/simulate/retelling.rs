//! The story of a world as a scenario file, which both doors play.
//!
//! `teller` makes the steps, and the model says what they find. A file has no date. So the model plays it on many
//! days: a step that finds another thing on another day ends the file. The file of a failing world is written only if
//! the shard alone goes otherwise than the model there; a defect that takes a crash, a full disk or a follower is in
//! no file. Steps without which it still does are left out.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use cardswitch_feed::scenario::{ScenarioFile, SetupFile, StepFile};
use cardswitch_feed::{FeedError, Story};
use cardswitch_sim::driver::id_mint;
use cardswitch_sim::happening::Happening;
use cardswitch_sim::model::{DAY, Model};
use cardswitch_sim::samples::START;
use cardswitch_sim::shrink::{failure_of, shrink};
use cardswitch_sim::workload::Workload;

use crate::inside::Inside;
use crate::teller::{Tale, tell};

/// The days on which a file is played: of all seasons, and those before the clocks of the company's zone change.
const DAYS: [i64; 15] = [0, 53, 101, 145, 205, 214, 217, 219, 221, 222, 297, 335, 343, 346, 348];

/// Commands of a calm day.
const CALM_COMMANDS: u64 = 1_000;

/// The story of a world that failed. If its own happenings do not show the failure at a door, those of a calm day of
/// the same seed may: where no crash and no disk comes between its commands.
pub(crate) fn story_of_failure(seed: u64, happenings: &[Happening], message: &str) -> Story {
    let about = format!("Seed {seed} of the simulator: {}", first_line(message));
    let own = tell(seed, happenings);
    if let Some(file) = failing_file(&about, &own) {
        return Story::write(&file, own.untold());
    }
    let calm = tell(seed, &calm_day(seed, CALM_COMMANDS));
    let about = format!("Seed {seed} of the simulator, on a calm day");
    if let Some(file) = failing_file(&about, &calm) {
        let world = "the world that failed: no door shows it, but the same defect here".to_owned();
        return Story::write(&file, vec![world]);
    }
    let mut untold = own.untold();
    untold.push("the failure: without what is left out, everything goes as it should".to_owned());
    Story::without_file(untold)
}

/// The fewest steps at which the shard goes otherwise than the model, if it does.
fn failing_file(about: &str, told: &Tale) -> Option<ScenarioFile> {
    let fails_on = |days: &[i64], setup: &SetupFile, steps: &[StepFile]| {
        let file = learned(about, setup, steps, days);
        file.is_ok_and(|file| goes_otherwise(&file))
    };
    for setup in setups(told) {
        // One day is enough to find the steps, and every day has to agree with the few that are left.
        for days in [&DAYS[..1], &DAYS[..]] {
            if !fails_on(days, &setup, &told.steps) {
                break;
            }
            let few = shrink(told.steps.clone(), |steps| fails_on(days, &setup, steps));
            if fails_on(&DAYS, &setup, &few) {
                let few = without_idle_names(few);
                return learned(about, &used(&setup, &few), &few, &DAYS).ok();
            }
        }
    }
    None
}

/// The commands of a seed, one after the other, at a switch that nothing befalls.
fn calm_day(seed: u64, commands: u64) -> Vec<Happening> {
    let (mut model, mut workload) = (Model::new(id_mint()), Workload::new(seed));
    for command in workload.opening() {
        let at = workload.pass_time().0;
        model.expect(at, &command);
    }
    let draw = |_| {
        let at = workload.pass_time().0;
        let command = workload.draw(&model);
        model.expect(at, &command);
        Happening::Send { at, commands: vec![command] }
    };
    (0..commands).map(draw).collect()
}

/// The story of a world that did not fail.
pub(crate) fn story_of(seed: u64, happenings: &[Happening]) -> Story {
    let told = tell(seed, happenings);
    let about = format!("Seed {seed} of the simulator");
    let setup = setups(&told).into_iter().next().unwrap_or_default();
    match learned(&about, &setup, &without_idle_names(told.steps.clone()), &DAYS) {
        Ok(file) => Story::write(&file, told.untold()),
        Err(error) => Story::without_file([told.untold(), vec![error.to_string()]].concat()),
    }
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(120).collect()
}

/// A rich company, and one with the money that the story's had.
fn setups(told: &Tale) -> [SetupFile; 2] {
    [None, told.account].map(|account| SetupFile {
        start: told.start,
        cards: told.cards.clone(),
        account,
    })
}

/// The setup without the cards that no step uses.
fn used(setup: &SetupFile, steps: &[StepFile]) -> SetupFile {
    let named = |step: &StepFile| {
        let names = [&step.card, &step.verify, &step.inquire, &step.suspend, &step.activate];
        let others = [&step.terminate, &step.change];
        names.into_iter().chain(others).flatten().cloned().collect::<Vec<_>>()
    };
    let used: BTreeSet<String> = steps.iter().flat_map(named).collect();
    let cards = setup.cards.clone().into_iter().filter(|(name, _)| used.contains(name));
    SetupFile { cards: cards.collect(), ..setup.clone() }
}

/// The steps, with a name only where another step uses it.
fn without_idle_names(mut steps: Vec<StepFile>) -> Vec<StepFile> {
    let named = |step: &StepFile| {
        let names = [&step.of, &step.reverse, &step.again, &step.settle, &step.take_back];
        names.into_iter().flatten().cloned().collect::<Vec<_>>()
    };
    let used: BTreeSet<String> = steps.iter().flat_map(named).collect();
    for step in &mut steps {
        step.name = step.name.take().filter(|name| used.contains(name));
    }
    steps
}

/// The file of steps with what the model says, as far as that is the same on each of the days.
/// Errors: steps that are no scenario, a change that the model refuses, nothing that is the same.
fn learned(
    about: &str,
    setup: &SetupFile,
    steps: &[StepFile],
    days: &[i64],
) -> Result<ScenarioFile, FeedError> {
    let on = |day: i64, steps: &[StepFile]| {
        let (about, steps) = (about.to_owned(), steps.to_vec());
        let mut file = ScenarioFile::new(about, setup.clone(), steps);
        file.learn(&mut Inside::model(START + day * DAY)).map(|()| file)
    };
    let first = on(days[0], steps)?;
    let mut alike = steps.len();
    for day in &days[1..] {
        let other = on(*day, steps)?;
        let pairs = first.steps().zip(other.steps()).take(alike);
        alike = pairs.take_while(|(first, other)| first == other).count();
    }
    if alike == steps.len() { Ok(first) } else { on(days[0], &steps[..alike]) }
}

/// Whether the shard finds something else than the file says.
fn goes_otherwise(file: &ScenarioFile) -> bool {
    let mut went = Ok(());
    let play = || {
        let at_shard = &mut Inside::shard(START);
        went = file
            .scenario()
            .and_then(|scenario| scenario.play(at_shard, &mut |_| ControlFlow::Continue(())));
    };
    failure_of(play).is_some() || went.is_err()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cardswitch_feed::Scenario;
    use cardswitch_sim::campaign::Campaign;
    use cardswitch_sim::rng::Rng;

    use super::*;

    /// The hand-written scenarios hold what the doors answer, so this proves `inside` and the model, too.
    #[test]
    fn every_scenario_goes_as_it_expects_at_the_model_and_at_the_shard() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
        assert!(!files.is_empty());
        for path in files {
            for mut switch in [Inside::model(START), Inside::shard(START)] {
                let mut reports = Vec::new();
                let scenario = Scenario::read(&path).unwrap();
                let played = scenario.play(&mut switch, &mut |report| {
                    reports.push(report.clone());
                    ControlFlow::Continue(())
                });
                assert!(played.is_ok(), "{played:?}: {:?}", reports.last());
            }
        }
    }

    /// Commands of calm days, and those of worlds with crashes, which are left out.
    #[test]
    fn stories_go_at_the_shard_as_the_model_says() {
        let first_seed = Rng::seed_from_environment();
        let campaign = Campaign { first_seed, seeds: 3, commands: 200, threads: 1 };
        let mut steps = 0;
        for seed in first_seed..first_seed + campaign.seeds {
            let calm = calm_day(seed, campaign.commands);
            for happenings in [calm, campaign.happenings_of(seed)] {
                let told = tell(seed, &happenings);
                for setup in setups(&told) {
                    let file = learned("A story", &setup, &told.steps, &DAYS).unwrap();
                    assert!(!goes_otherwise(&file), "seed {seed}");
                    steps += file.steps().count();
                }
            }
        }
        // Of two thousand or so: what depends on the date ends a story.
        assert!(steps > 300, "{steps} steps");
    }

    #[test]
    fn a_failure_that_no_step_shows_is_not_told() {
        let campaign = Campaign { first_seed: 1, seeds: 1, commands: 60, threads: 1 };
        let story = story_of_failure(1, &campaign.happenings_of(1), "a failure");
        assert_eq!(story.scenario, None, "{story}");
        assert!(story.untold.last().unwrap().starts_with("the failure"), "{story}");
    }
}
