"""
Where Refold answers differently from the originals, as code.

Each module holds a model of an original's behaviour in which every deviation is a switch. With all switches off, the
model gives the recorded answers; with all of them on, it gives Refold's answers. The deviations of a case are the
switches that are needed for Refold's answer.
"""
