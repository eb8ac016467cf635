"""Benchmarks: what training, attribution and memory cost, beside cebra. Run one from the checkout's root:

python -m benchmarks.cpu
"""
