use super::*;
use crate::journal::testing::{FaultyBackend, next_random};

const LEN: usize = 40_000;

/// The overlay against a plain vector, by random writes, reads and resizes.
#[test]
fn behaves_like_memory_and_leaves_the_base_alone() {
    for seed in 1..20 {
        let content: Vec<u8> = (1..=251).cycle().take(LEN).collect();
        let base = FaultyBackend::with_content(content.clone());
        let overlay =
            OverlayBackend::over(SharedBackend::new(base.clone()), OverlayLocks::Held).unwrap();
        let mut model = content.clone();
        let mut state = seed;
        for step in 0..300 {
            step_both(&overlay, &mut model, &mut state);
            let mut seen = vec![0; model.len()];
            overlay.read(0, &mut seen).unwrap();
            assert!(seen == model, "seed {seed}, step {step}");
            assert_eq!(overlay.len().unwrap(), model.len() as u64);
        }
        assert!(overlay.read(model.len() as u64, &mut [0]).is_err(), "beyond the end");
        assert!(base.content() == content, "seed {seed}: the base was changed");
        assert_eq!(base.writes() + base.syncs(), 0);
    }
}

fn step_both(overlay: &OverlayBackend, model: &mut Vec<u8>, state: &mut u64) {
    let at = below(state, LEN);
    match next_random(state) % 4 {
        0 => {
            overlay.set_len(at as u64).unwrap();
            model.resize(at, 0);
        }
        1 => overlay.sync_data().unwrap(),
        _ => {
            let bytes = vec![u8::try_from(below(state, 256)).unwrap(); below(state, 10_000)];
            overlay.write(at as u64, &bytes).unwrap();
            let end = at + bytes.len();
            if model.len() < end {
                model.resize(end, 0);
            }
            model[at..end].copy_from_slice(&bytes);
        }
    }
    let start = below(state, model.len() + 1);
    let end = start + below(state, model.len() - start + 1);
    let mut seen = vec![0; end - start];
    overlay.read(start as u64, &mut seen).unwrap();
    assert!(seen == model[start..end]);
}

fn below(state: &mut u64, bound: usize) -> usize {
    usize::try_from(next_random(state) % bound as u64).unwrap()
}
