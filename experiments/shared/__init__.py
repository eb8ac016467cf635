"""What all experiments share: plans, rows that survive an interruption, many models at once, results on disk."""
