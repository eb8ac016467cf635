"""Experiments after Crabbé & van der Schaar (2022), Label-free explainability for unsupervised models, ICML."""
