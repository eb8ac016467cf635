"""From pairs to trained encoders: objective, penalty, the one loop, on a CPU or a GPU."""
