"""When contrastive learning finds the true latents: Zimmermann et al. (2021) and its predecessor of 2020.

- `affine.py`: latents up to an affine map (the experiment "inversion"), with mixings of three and of two layers.
- `dimensions.py`: the same with more latents.
- `permutation.py`: latents up to order, sign and scale.
- `theory.py`: what the theorems say, in numbers.
- `models.py`: what the first two share.
"""
