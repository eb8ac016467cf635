"""Several recordings with different channels in one embedding: an encoder each, variables in common."""

from .embedding import SharedEmbedding

__all__ = ["SharedEmbedding"]
