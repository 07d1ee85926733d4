"""Spans of OpenTelemetry for a store's events, and events that name the current span."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("otel"):
    from refold.infrastructure.frameworks.otel import Spans, correlate_with_spans, current_traceparent

__all__ = ["Spans", "correlate_with_spans", "current_traceparent"]
