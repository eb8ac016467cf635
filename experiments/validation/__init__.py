"""Do ascribo's calls and tests keep their promises? On simulated recordings, a real one, beside other methods."""
