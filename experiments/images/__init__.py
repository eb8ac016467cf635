"""Contrastive learning on images of which every factor is known.

pair_source.py      pairs of images for the library's training loop
sprites.py          dSprites-like images (Zimmermann et al. 2020, tables 2 to 4)
sprite_models.py    what is trained on them: L_AU, and the baselines β-VAE, SlowVAE and supervised
sprite_scores.py    the six scores and the correlation with the true factors
scenes.py           rendered scenes (Zimmermann et al. 2021, table 4)
"""
