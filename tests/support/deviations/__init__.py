"""
Where Refold answers differently from the originals, as code.

Each module holds a model of an original's behaviour in which every deviation is a switch. With all switches off it
gives the recorded answers, with all of them on Refold's; the switches without which the latter would not come out
are the deviations that a case shows.
"""
