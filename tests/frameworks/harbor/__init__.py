"""Trajectories of Refold before the validator of Harbor, which the tests install."""
