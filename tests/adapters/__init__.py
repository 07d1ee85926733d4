"""The adapters against servers on this machine that speak the protocols of the providers."""
