"""Regularized contrastive learning: the tables and figures of Schneider et al. (2025), and what they leave open."""
