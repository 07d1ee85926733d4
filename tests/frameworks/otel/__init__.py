"""Tests of spans; they need the SDK of OpenTelemetry."""
