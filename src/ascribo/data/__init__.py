"""What comes in: recordings, how they are checked, the formats they come in, what is done to channels first.

    recording.py                             a recording: channels over time, variables, epochs
    arrays.py, row_labels.py,
    float_precision.py, validation.py        what is given to it, checked
    variables.py                             behaviour at its own sampling rate
    binning.py, preprocessing.py             events and samples in bins, smoothing, square roots, z-scores
    standardised_channels.py, segments.py    channels and time as the rest of the package works with them
    format_registry.py, formats/             formats of files and of objects: one module, one registration each
    containers.py, read.py                   anything as a recording: objects in memory, files

A new format is one module: see `ascribo.data.formats` for how to write and register it.
"""
