"""What comes in: recordings, their checks, files and formats, and what is done to channels beforehand."""
