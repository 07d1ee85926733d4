"""Tests of the benchmarks: that they run and count rightly; never how fast anything is."""
