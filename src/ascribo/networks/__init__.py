"""Encoders, a stack of them as one function, and the contrastive loss."""
