"""Small tools that every other folder uses.

    names.py, progress.py         names in messages; progress bars
    files.py                      files written whole or not at all
    stored_parameters.py          parameters as JSON and back
    circle.py, array_shapes.py    circular variables; shapes in annotations
    compute.py                    device and threads

Nothing here knows of recordings or models.
"""
