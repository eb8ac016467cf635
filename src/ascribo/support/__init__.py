"""Small tools that every other folder uses.

names.py, progress.py    names in messages; progress bars
files.py, records.py     files written whole or not at all; parameters as JSON and back
circle.py, shapes.py     circular variables; shapes in annotations
compute.py               device and threads
"""
