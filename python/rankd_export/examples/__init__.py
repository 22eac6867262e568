"""Models that show how to use the exporter."""
