"""Tests of conversions to and from the formats of model providers."""
