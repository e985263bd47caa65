"""The HTTP side: the app, its routes, answers whole and streamed, limits, metrics."""
