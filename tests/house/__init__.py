"""Tests of the code as a whole: the built packages, the imports, and the sizes of files and functions."""
