"""The report: one HTML file that says which channels carry which variable, how sure that is, and if to trust it.

    contents.py      all that a report says and shows, as plain data
    activity.py      channels and variables over time, tuning curves, rate maps: in one pass over the recording
    stretches.py     scores in blocks of time
    problems.py      what about the recording or the fit may mislead, each with what to do
    agreement.py     whether seeds agree
    words.py         the answers, the verdicts, and names made fit to be shown
    methods_text.py  a paragraph for a paper, and how to get the same numbers again
    blobs.py         arrays as compressed text
    write.py         from the contents to the file
    compare.py       several runs beside each other
    summary.py       how many runs are spread, which stand out, which failed
    render.py        pages from templates
    templates/       the page, its style and its script

The file needs no network and no other file: it can be opened from a disk, sent to a co-author, put in a supplement.
Names in it come from data, so they are never trusted: the page is made with autoescape, the script sets text only,
and the page forbids itself to load anything.
"""

from .compare import Run, write_comparison
from .methods_text import fingerprint
from .write import write_report

__all__ = ["Run", "fingerprint", "write_comparison", "write_report"]
