"""Long proofs with real processes: `python -m proofs NAME`. The journeys are the same in small, and run in CI."""
